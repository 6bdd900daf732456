"""An adapter made ready to go to another process: pickled, by reference where that process can import the same, else by value.

Made with cloudpickle, so that closures, lambdas, and what stands in a test module that cannot be imported, can go as well. There is one
copy of everything there: what a module that can be imported holds is taken from that module, by the functions that go by value too.
"""

from __future__ import annotations

import functools
import importlib
import io
import os
import pickle
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ONE_AT_A_TIME = threading.Lock()
"""What goes by value is registered with cloudpickle, for the whole process."""
_DEPTH = 6
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), types.BuiltinFunctionType, types.ModuleType)
"""What nobody can tell from its copy, or what is known by its name in any case."""


class CannotHost(TypeError):
    """An adapter cannot be driven in a process of its own; the message names what stands in the way."""


def pack(adapter: object, *, way_out: str) -> bytes:
    """The adapter (an object, or a class to be called there) as a pickle.

    Args:
        way_out: what else can be done, for the message.
    Raises:
        CannotHost: something in it cannot be pickled (a lock, an open socket); the message names it.
    """
    try:
        return _pickled(adapter)
    except Exception as error:  # whatever an object's own pickling may raise
        path, culprit = _culprit(adapter, [_name(adapter)])
        raise CannotHost(
            f"the adapter cannot go to a process of its own, since {' → '.join(path)}, a {type(culprit).__name__}, cannot be pickled"
            f" ({' '.join(str(error).split())}): make it in start, or {way_out}"
        ) from None


def unpack(parcel: bytes) -> Any:
    """What was packed, made anew in this process."""
    return _Unpacker(io.BytesIO(parcel)).load()


def _pickled(thing: object) -> bytes:
    import cloudpickle  # type: ignore[import-untyped]

    goes_by_value: list[types.ModuleType] = []
    can_be_imported = functools.cache(_can_be_imported)
    held = _held_by_modules()

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        """Decides for each thing, as it comes, which way it goes."""

        def __init__(self, target: io.BytesIO, copied: object = None) -> None:
            super().__init__(target)
            self._copied = copied
            self._held: dict[int, tuple[object, tuple[Any, ...] | None]] = {}

        def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
            """Where it is found there, and a copy, should that module not hold it before it is used; None where it goes by value."""
            if id(obj) not in held or obj is self._copied or _is_plain(obj) or _is_known_by_name(obj):
                return None
            if id(obj) not in self._held:
                self._held[id(obj)] = obj, self._place_of(obj)
            return self._held[id(obj)][1]

        def reducer_override(self, obj: Any) -> Any:
            module = _module_of(obj)
            if module is not None and module not in goes_by_value and not can_be_imported(module.__name__):
                cloudpickle.register_pickle_by_value(module)
                goes_by_value.append(module)
            if isinstance(obj, types.CellType):
                return _empty_cell, (), _contents(obj), None, None, _fill
            made = super().reducer_override(obj)
            return self._function(obj, *made) if isinstance(obj, types.FunctionType) and made is not NotImplemented else made

        def _place_of(self, obj: Any) -> tuple[Any, ...] | None:
            # Where it was made, rather than where it was imported.
            places = sorted(held[id(obj)], key=lambda place: place[0] != getattr(type(obj), "__module__", None))
            place = next((place for place in places if can_be_imported(place[0])), None)
            if place is None:
                return None
            copy = None
            if self._copied is None:
                target = io.BytesIO()
                try:
                    Packer(target, obj).dump(obj)
                    copy = target.getvalue()
                except Exception:  # whatever an object's own pickling may raise; it is seldom needed
                    copy = None
            return (*place, _looks(obj), copy)

        def _function(self, obj: types.FunctionType, make: Any, args: tuple[Any, ...], *more: Any) -> tuple[Any, ...]:
            """As cloudpickle does, but in its real module where that can be imported, and with its cells, that others may share."""
            code, variables, *_ = args
            name = obj.__globals__.get("__name__")
            module = sys.modules.get(name) if isinstance(name, str) else None
            if isinstance(module, types.ModuleType) and _variables_of(module) is obj.__globals__ and can_be_imported(module.__name__):
                return _in_module, (name, code, obj.__closure__), *more
            return make, (code, variables, None, None, obj.__closure__), *more

    target = io.BytesIO()
    with _ONE_AT_A_TIME:
        try:
            Packer(target).dump(thing)
        finally:
            for module in goes_by_value:
                cloudpickle.unregister_pickle_by_value(module)
    return target.getvalue()


class _Unpacker(pickle.Unpickler):
    """Finds what a module holds by its place there."""

    def persistent_load(self, pid: tuple[str, str, tuple[str, ...], bytes | None]) -> Any:
        """What the module holds; where it was put there later than on import, a copy, which it holds from now on."""
        module, name, looks, copy = pid
        variables = _variables_of(importlib.import_module(module))
        found = variables.get(name)
        if copy is not None and _looks(found) != looks:
            found = variables[name] = unpack(copy)
        if found is None:
            raise LookupError(f"{module}.{name}, a {looks[-1]}, is not there when {module} is imported, and a copy cannot be pickled")
        return found


def _held_by_modules() -> Mapping[int, list[tuple[str, str]]]:
    """The places (module and name) of whatever is a variable of a module, by its identity."""
    held: dict[int, list[tuple[str, str]]] = {}
    for module_name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and module_name != "__main__":
            for name, value in list(_variables_of(module).items()):
                if not name.startswith("__"):
                    held.setdefault(id(value), []).append((module_name, name))
    return held


def _variables_of(module: types.ModuleType) -> dict[str, Any]:
    variables: dict[str, Any] = object.__getattribute__(module, "__dict__")  # vars() would load one that is loaded when it is used
    return variables


def _is_plain(thing: object) -> bool:
    # Constants are shared by whoever writes the same, the empty tuple by all.
    return isinstance(thing, _PLAIN) or (isinstance(thing, (tuple, frozenset)) and all(map(_is_plain, thing)))


def _is_known_by_name(thing: object) -> bool:
    """Whether it is a class or function that stands in its module under its own name."""
    if not isinstance(thing, (type, types.FunctionType)):
        return False
    found: Any = sys.modules.get(getattr(thing, "__module__", None) or "")
    for name in thing.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is thing


def _looks(thing: object) -> tuple[str, ...]:
    named = thing if isinstance(thing, (type, types.FunctionType)) else type(thing)
    return type(thing).__name__, str(named.__module__), named.__qualname__


def _in_module(name: str, code: types.CodeType, cells: tuple[types.CellType, ...] | None) -> types.FunctionType:
    return types.FunctionType(code, _variables_of(importlib.import_module(name)), None, None, cells)


def _empty_cell() -> types.CellType:
    return types.CellType()


def _contents(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not assigned yet
        return ()


def _fill(cell: types.CellType, contents: tuple[Any, ...]) -> None:
    for value in contents:
        cell.cell_contents = value


def _module_of(thing: object) -> types.ModuleType | None:
    """The module that a class or function comes from, or that it is; None where there is nothing to decide."""
    if isinstance(thing, types.ModuleType):
        return thing if sys.modules.get(thing.__name__) is thing else None
    if isinstance(thing, (type, types.FunctionType)):
        found = sys.modules.get(getattr(thing, "__module__", None) or "")
        return found if isinstance(found, types.ModuleType) and found.__name__ in sys.modules else None
    return None


def _can_be_imported(name: str) -> bool:
    """Whether a process with the same ``sys.path`` would get the same module by this name."""
    if name == "__main__":
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    parent = name.rpartition(".")[0]
    if parent and not _can_be_imported(parent):
        return False
    found = _find(name, getattr(sys.modules.get(parent), "__path__", None))
    if found is None:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or (found.origin is not None and os.path.realpath(file) == os.path.realpath(found.origin))


def _find(name: str, path: Any) -> Any:
    # Not importlib.util.find_spec, which believes sys.modules.
    for finder in sys.meta_path:
        try:
            found = finder.find_spec(name, path, None)
        except Exception:  # a finder of somebody's own, an old one without this method too
            continue
        if found is not None:
            return found
    return None


# ---------------------------------------------------------------------- what stands in the way


def _culprit(thing: object, path: list[str]) -> tuple[list[str], object]:
    """The innermost part that cannot be pickled, and the way to it."""
    if len(path) > _DEPTH:
        return path, thing
    for name, part in _parts(thing):
        if not _can_go(part):
            return _culprit(part, [*path, name])
    return path, thing


def _can_go(thing: object) -> bool:
    try:
        _pickled(thing)
    except Exception:
        return False
    return True


def _parts(thing: object) -> Iterator[tuple[str, object]]:
    """What a thing is made of, as far as it goes with it."""
    if isinstance(thing, dict):
        yield from ((repr(key), value) for key, value in thing.items())
    elif isinstance(thing, (list, tuple, set, frozenset)):
        yield from ((f"[{number}]", value) for number, value in enumerate(thing))
    elif isinstance(thing, functools.partial):
        yield from (("func", thing.func), ("args", thing.args), ("keywords", thing.keywords))
    elif isinstance(thing, types.MethodType):
        yield _name(thing.__self__), thing.__self__
    elif isinstance(thing, types.FunctionType):
        yield from _variables(thing)
    elif isinstance(thing, type):
        yield from vars(thing).items()
    elif not isinstance(thing, types.ModuleType):
        yield from _state(thing)


def _variables(function: Callable[..., Any]) -> Iterator[tuple[str, object]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield from ((name, value) for value in _contents(cell))
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _state(thing: object) -> Iterator[tuple[str, object]]:
    try:
        state = thing.__getstate__()
    except Exception:
        return
    for part in state if isinstance(state, tuple) else (state,):
        if isinstance(part, dict):
            yield from ((str(name), value) for name, value in part.items())


def _name(thing: object) -> str:
    named = thing if isinstance(thing, (type, types.FunctionType)) else type(thing)
    return named.__name__
