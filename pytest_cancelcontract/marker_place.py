"""Where the marker ``cancel_contract`` of a test stands, for what points at it. pytest keeps no line of a marker, so the source is read."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType
from typing import NamedTuple

import pytest

from pytest_cancelcontract.options import MARKER

_MARKS = "pytestmark"


class PlaceInSource(NamedTuple):
    """A file, and a line of it counted from 1."""

    path: Path
    line: int


def marker_place(item: pytest.Item) -> PlaceInSource:
    """The line of the marker that is nearest to a test: on one of its parameters, its function, its class or its module.

    A marker that stands nowhere near under its own name (it was given another one, or is added by a hook) is told by the test, class or
    list that bears it; a test without one by itself, or by the line that imports it.
    """
    # pytest tells a parameter's own marks behind those of the function, although they are nearer.
    on_parameters = [(item, mark) for mark in getattr(getattr(item, "callspec", None), "marks", ()) if mark.name == MARKER]
    for node, mark in [*reversed(on_parameters), *item.iter_markers_with_node(MARKER)]:
        for place, marks in _regions(node, mark):
            return PlaceInSource(place.path, _line_among(marks, mark) or place.line)
    return _own_place(item)


# ---------------------------------------------------------------------- where marks may stand


_Region = tuple[PlaceInSource, list[ast.expr]]
"""What bears marks, and the expressions that are its marks."""


def _regions(node: object, mark: pytest.Mark) -> Iterator[_Region]:
    """The places in the source at which a node's marks may stand; none where the source says nothing of it."""
    if isinstance(node, pytest.Function):
        yield from _of_function(node)
    elif isinstance(node, pytest.Class):
        yield from _of_class(node.obj, mark)
    elif isinstance(node, pytest.Module):
        tree = _tree(node.path)
        yield from _of_assignments(node.path, tree.body if tree else [])


def _of_function(item: pytest.Function) -> Iterator[_Region]:
    code = _code(item)
    if code is None:
        return
    path = Path(code.co_filename)
    for node in ast.walk(_tree(path) or ast.Module([], [])):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _first_line(node) == code.co_firstlineno:
            yield PlaceInSource(path, code.co_firstlineno), node.decorator_list


def _of_class(cls: type, mark: pytest.Mark) -> Iterator[_Region]:
    """A class's marks stand on it or in it, or on a class that it inherits from, maybe in another file."""
    for one in cls.__mro__:
        own = one.__dict__.get(_MARKS, ())
        if all(mark != getattr(found, "mark", found) for found in (own if isinstance(own, list | tuple) else (own,))):
            continue
        path = Path(getattr(sys.modules.get(one.__module__), "__file__", None) or "")
        definition = _definition(_tree(path), one.__qualname__.split("."))
        if definition is not None:
            inside = list(_of_assignments(path, definition.body))
            decorated = (PlaceInSource(path, _first_line(definition)), definition.decorator_list)
            yield from (decorated, *inside) if _named(definition.decorator_list) or not inside else inside


def _of_assignments(path: Path, body: Iterable[ast.stmt]) -> Iterator[_Region]:
    """``pytestmark = …`` in a module or a class."""
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == _MARKS for target in targets):
            value = getattr(statement, "value", None)
            yield PlaceInSource(path, statement.lineno), [value] if value is not None else []


def _definition(tree: ast.Module | None, names: list[str]) -> ast.ClassDef | None:
    found: ast.Module | ast.ClassDef | None = tree
    for name in names:
        body = found.body if found is not None else []
        found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)
    return found if isinstance(found, ast.ClassDef) else None


# ---------------------------------------------------------------------- which mark it is


def _line_among(marks: Iterable[ast.expr], mark: pytest.Mark) -> int | None:
    """The line of the one that was given the mark's own arguments, else of the first; None where none bears the marker's name."""
    named = _named(marks)
    return next((node.lineno for node in named if _arguments(node) == mark.kwargs), named[0].lineno if named else None)


def _named(marks: Iterable[ast.expr]) -> list[ast.expr]:
    """Everything called ``….cancel_contract`` in the expressions, with its arguments where it has some, in the source's order."""
    nodes = [below for one in marks for below in ast.walk(one)]
    calls = [node for node in nodes if isinstance(node, ast.Call) and _is_marker(node.func)]
    bare = [node for node in nodes if isinstance(node, ast.Attribute) and _is_marker(node) and all(node is not call.func for call in calls)]
    return sorted([*calls, *bare], key=lambda node: node.lineno)


def _is_marker(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == MARKER


def _arguments(node: ast.expr) -> dict[str | None, object] | None:
    """What a call is given by name; None where that takes more than reading it."""
    try:
        return {one.arg: ast.literal_eval(one.value) for one in node.keywords} if isinstance(node, ast.Call) else {}
    except (ValueError, TypeError, SyntaxError):
        return None


# ---------------------------------------------------------------------- without a marker


def _own_place(item: pytest.Item) -> PlaceInSource:
    code = _code(item)
    if code is not None and Path(code.co_filename) == item.path:
        return PlaceInSource(item.path, code.co_firstlineno)
    name = getattr(getattr(item, "obj", None), "__name__", "")
    tree = _tree(item.path)
    imports = (node for node in (tree.body if tree else []) if isinstance(node, ast.ImportFrom))
    return PlaceInSource(item.path, next((node.lineno for node in imports if any(alias.name == name for alias in node.names)), 1))


def _code(item: pytest.Item) -> CodeType | None:
    function = getattr(item, "function", None)
    return getattr(inspect.unwrap(function), "__code__", None) if function is not None else None


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    """That of its first decorator, where it has one; so does Python count, too."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _tree(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
