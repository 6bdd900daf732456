"""Arrows between the rooms point down: who may import whom."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "pytest_cancelcontract"
RUNNER = "uncooperative_runner"
DATA = {"answers", "escapes", "history", "identity", "terms", "finding", "scenarios", "workspace_rules"}
PURE_STDLIB = {"__future__", "collections", "dataclasses", "enum", "functools", "itertools", "math", "traceback", "typing"}
"""All that a judge may use of the standard library: nothing that can look at the world, or at the time."""
IMPURE_NAMES = {"open", "eval", "exec", "compile", "__import__", "input", "breakpoint"}
ACTORS = {"drill", "acts", "underway", "outcome_watch", "adapters", "recorder", "follow"}
JUDGES = {"contract", "clauses"}


def _modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def _room(path: Path) -> str:
    """The first name below the package: ``clauses`` for a file in it, ``terms`` for ``terms.py``."""
    return path.relative_to(ROOT / PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    """The dotted name of everything that a file imports, at any depth, for type checking only too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # A name that is imported from a package may be a module of it: both are arrows.
            yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)


def _rooms_of(path: Path) -> set[str]:
    """The rooms of the package that a file imports from."""
    return {name.split(".")[1] for name in _imports(path) if name.split(".")[0] == PACKAGE and "." in name}


def _others(path: Path) -> set[str]:
    """The top-level modules outside the package that a file imports."""
    return {name.split(".")[0] for name in _imports(path)} - {PACKAGE, ""}


def _in_rooms(*rooms: str) -> list[object]:
    paths = [path for path in _modules(PACKAGE) if _room(path) in rooms]
    return [pytest.param(path, id=str(path.relative_to(ROOT))) for path in paths]


@pytest.mark.parametrize("path", _in_rooms(*DATA))
def test_data_modules_know_the_standard_library_and_each_other(path: Path) -> None:
    assert _rooms_of(path) <= DATA
    assert _others(path) <= sys.stdlib_module_names


@pytest.mark.parametrize("path", _in_rooms(*JUDGES))
def test_judges_are_pure(path: Path) -> None:
    assert _rooms_of(path) <= DATA | JUDGES
    assert _others(path) <= PURE_STDLIB
    called = {node.id for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
    assert not called & IMPURE_NAMES


@pytest.mark.parametrize("path", _in_rooms("clauses"))
def test_clauses_do_not_know_the_judge(path: Path) -> None:
    assert "contract" not in _rooms_of(path)


@pytest.mark.parametrize("path", _in_rooms(*ACTORS))
def test_actors_do_not_know_the_judges(path: Path) -> None:
    assert not _rooms_of(path) & (JUDGES | {"report", "conduct", "plugin", "assertions"})


@pytest.mark.parametrize("path", _in_rooms("report"))
def test_reports_do_not_act(path: Path) -> None:
    assert not _rooms_of(path) & (ACTORS | {"conduct", "plugin"})
    assert "pytest" not in _others(path)


@pytest.mark.parametrize("path", _in_rooms("controls"))
def test_controls_know_the_standard_library_alone(path: Path) -> None:
    """They are run by file path, as anybody's wrapper, and what they prove must not rest on what is proven with them."""
    assert not _rooms_of(path)
    assert _others(path) <= sys.stdlib_module_names


@pytest.mark.parametrize("path", _in_rooms("assertions"))
def test_assertions_work_without_pytest(path: Path) -> None:
    assert not _others(path) & {"pytest", "_pytest"}


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in _modules(RUNNER)])
def test_the_runner_knows_only_the_standard_library_and_itself(path: Path) -> None:
    siblings = {one.stem for one in _modules(RUNNER)} | {RUNNER}
    assert {name.split(".")[0] for name in _imports(path)} - {""} <= sys.stdlib_module_names | siblings


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in _modules(PACKAGE)])
def test_siblings_are_imported_by_full_path(path: Path) -> None:
    """Never relatively, and never from the package's root, whose names are loaded on first use."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module != PACKAGE, f"line {node.lineno}: write import {PACKAGE}.… instead"
    assert PACKAGE not in set(_imports(path))


def test_the_arrows_are_read_at_all() -> None:
    """A reader of imports that found nothing would hold every arrow."""
    assert _rooms_of(ROOT / PACKAGE / "contract.py") >= {"clauses", "history", "terms", "finding"}
    assert "traceback" in _others(ROOT / PACKAGE / "contract.py")
