"""An adapter made ready to go to another process: pickled, by reference where that process can import the same, else by value.

Made with cloudpickle, so that closures, lambdas, and what stands in a test module that cannot be imported, can go as well.
"""

from __future__ import annotations

import functools
import io
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

_ONE_AT_A_TIME = threading.Lock()
"""What goes by value is registered with cloudpickle, for the whole process."""
_DEPTH = 6


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


def _pickled(thing: object) -> bytes:
    import cloudpickle  # type: ignore[import-untyped]

    goes_by_value: list[types.ModuleType] = []
    can_be_imported = functools.cache(_can_be_imported)

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        """Decides for each class, function and module, as it comes, which way it goes."""

        def reducer_override(self, obj: Any) -> Any:
            module = _module_of(obj)
            if module is not None and module not in goes_by_value and not can_be_imported(module.__name__):
                cloudpickle.register_pickle_by_value(module)
                goes_by_value.append(module)
            return super().reducer_override(obj)

    target = io.BytesIO()
    with _ONE_AT_A_TIME:
        try:
            Packer(target).dump(thing)
        finally:
            for module in goes_by_value:
                cloudpickle.unregister_pickle_by_value(module)
    return target.getvalue()


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
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
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
