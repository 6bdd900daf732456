"""Which tests' drills may be started before their tests: those that meet the same world now as when their turn comes.

A fixture may change the world (an environment variable, a service, a file), for its own test's drill and for every other that is in
flight meanwhile. So only tests without fixtures of their own are started ahead, only beside such a test, and only up to the next
other one. pytest has no public names for much of what is looked at here; what is not found lets nothing start ahead.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

_OURS = ("pytest_cancelcontract.plugin", "cancel_contract")
_PARAMETER = ("_pytest.python", "get_direct_param_fixture_func")
"""What stands for a parameter that is no fixture: ``parametrize("mode", …)``."""
_LOOP_PLUGINS = {"anyio.pytest_plugin", "pytest_asyncio.plugin"}
_LOOP_NAMES = re.compile(r"_(function|class|module|package|session)_(scoped_runner|event_loop)")
"""Fixtures that pytest-asyncio asks for when a test is set up, so that its definitions do not have them."""
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


class Ground:
    """A plugin of pytest that knows which fixtures are up, and so which tests behind one meet the same world."""

    def __init__(self) -> None:
        self._up: set[Any] = set()

    def pytest_fixture_setup(self, fixturedef: Any) -> None:
        self._up.add(fixturedef)

    def pytest_fixture_post_finalizer(self, fixturedef: Any) -> None:
        self._up.discard(fixturedef)

    def those_that_follow(self, item: pytest.Item) -> list[pytest.Item]:
        """The contract tests directly behind this one that may start beside it: nothing of their own, the same ``cancel_adapter``."""
        if not _is_plain(item, item):
            return []
        # Whoever asked for what is up: where its scope ends, the world may change.
        scopes = frozenset(definition.scope for definition in self._up if not _changes_nothing(definition))
        items = item.session.items
        behind = itertools.islice(items, items.index(item) + 1, None)
        following = itertools.takewhile(lambda other: _meets_the_same_world(item, other, scopes), behind)
        return [other for other in following if not _may_be_skipped(other)]


def adapter_origin(item: pytest.Item) -> Any:
    """The definition of ``cancel_adapter`` that an item gets."""
    return (_definitions(item).get("cancel_adapter") or (None,))[-1]


def _meets_the_same_world(item: pytest.Item, other: pytest.Item, scopes: frozenset[str]) -> bool:
    return (
        _gets_the_same(item, other)
        and _is_plain(other, item)
        and all(_home(item, scope) is _home(other, scope) for scope in scopes)
        and not any(_does_something(node) for node in _between(item, other))
    )


# ---------------------------------------------------------------------- the same adapter


def _gets_the_same(item: pytest.Item, other: pytest.Item) -> bool:
    if not {"cancel_contract", "cancel_adapter"} <= set(getattr(other, "fixturenames", ())):
        return False
    origin = adapter_origin(item)
    return origin is not None and _home(item, origin.scope) is _home(other, origin.scope) and _deciding(item) == _deciding(other)


def _definitions(item: pytest.Item) -> Mapping[str, Sequence[Any]]:
    return getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})


def _home(item: pytest.Item, scope: str) -> object:
    """Within what a fixture of that scope keeps its value: the session, or a package, module or class; the test itself otherwise."""
    kinds: dict[str, type[pytest.Collector]] = {
        "session": pytest.Session,
        "package": pytest.Package,
        "module": pytest.Module,
        "class": pytest.Class,
    }
    return (item.getparent(kinds[scope]) if scope in kinds else None) or item


def _deciding(item: pytest.Item) -> dict[str, tuple[list[Any], int | None]]:
    """All that the value of ``cancel_adapter`` depends on: fixtures by name, their definitions, and which parameter an item has."""
    definitions = _definitions(item)
    return {name: (list(definitions.get(name, ())), _parameter(item, name)) for name in _names_of_the_adapter(item)}


def _names_of_the_adapter(item: pytest.Item) -> set[str]:
    """``cancel_adapter`` and the fixtures that it asks for; what a definition asks for that was overridden is not among them."""
    definitions = _definitions(item)
    to_look_at, seen = [("cancel_adapter", 1)], set()
    while to_look_at:
        name, depth = to_look_at.pop()
        if (name, depth) in seen:
            continue
        seen.add((name, depth))
        chain = definitions.get(name, ())
        if depth <= len(chain):
            to_look_at += [(asked, depth + 1 if asked == name else 1) for asked in chain[-depth].argnames]
    return {name for name, _ in seen}


def _parameter(item: pytest.Item, name: str) -> int | None:
    indices: Mapping[str, int] = getattr(getattr(item, "callspec", None), "indices", {})
    return indices.get(name)


# ---------------------------------------------------------------------- nothing else


def _is_plain(item: pytest.Item, now: pytest.Item) -> bool:
    """Whether a test has nothing but its drill and its adapter, and what plugins gave to the whole session before ``now`` began."""
    of_adapter = _names_of_the_adapter(item)
    names = [name for name in getattr(item, "fixturenames", ()) if name != "request" and name not in of_adapter]
    return all(_is_harmless(item, now, name) for name in names)


def _is_harmless(item: pytest.Item, now: pytest.Item, name: str) -> bool:
    chain = list(_definitions(item).get(name, ()))
    if not chain:
        return _LOOP_NAMES.fullmatch(name) is not None
    if all(_changes_nothing(definition) for definition in chain):
        return True
    # A plugin's fixture for the session that is not up yet may bring up, later, what the test's drill needs.
    is_up = chain == list(_definitions(now).get(name, ())) and _parameter(item, name) == _parameter(now, name)
    return is_up and all(definition.scope == "session" and _is_of_a_plugin(definition, item.config) for definition in chain)


def _changes_nothing(definition: Any) -> bool:
    """Our own fixture, a plain parameter, or what gives async tests their loop."""
    module, name = _where_from(definition)
    return (module, name) in {_OURS, _PARAMETER} or module in _LOOP_PLUGINS


def _where_from(definition: Any) -> tuple[str, str]:
    return getattr(definition.func, "__module__", None) or "", getattr(definition.func, "__name__", "")


def _is_of_a_plugin(definition: Any, config: pytest.Config) -> bool:
    """Whether a fixture was installed, and is none of the project's own: not of a conftest.py, a test module or a plugin in the project."""
    code = getattr(inspect.unwrap(definition.func), "__code__", None)
    if definition.baseid or code is None:  # it belongs to a folder, a module or a class
        return False
    path = Path(code.co_filename)
    if not path.is_absolute() or path.name == "conftest.py":
        return False
    folders = (config.rootpath, config.invocation_params.dir)
    return not _PACKAGE_FOLDERS.isdisjoint(path.parts) or not any(path.is_relative_to(folder) for folder in folders)


def _between(item: pytest.Item, other: pytest.Item) -> Iterator[pytest.Collector]:
    """The modules, classes and folders that end, or begin, on the way from one test to another."""
    here, there = item.listchain()[:-1], other.listchain()[:-1]
    for node in (*here, *there):
        if isinstance(node, pytest.Collector) and not (node in here and node in there):
            yield node


def _does_something(node: pytest.Collector) -> bool:
    """Whether a collector sets something up by itself, as a package does that has a ``setup_module``."""
    kind = type(node)
    return kind.setup is not pytest.Collector.setup or kind.teardown is not pytest.Collector.teardown


def _may_be_skipped(item: pytest.Item) -> bool:
    """Whether a test may not be run at all; a condition that is not plainly false may be anything."""
    if item.get_closest_marker("skip") is not None:
        return True
    conditions = [condition for marker in item.iter_markers("skipif") for condition in marker.args or (True,)]
    return any(condition is not False for condition in conditions) or any(
        not marker.kwargs.get("run", True) for marker in item.iter_markers("xfail")
    )
