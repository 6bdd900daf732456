"""The ``cancel_*`` settings of the folder in which the command is run, from the file that pytest would take there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cancelcontract.cli.parser import BadUse
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS


def folder_settings(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The ``cancel_*`` settings of a folder's pytest configuration as ini texts, and the origin of each, for people.

    The file is the one that pytest would take in that folder; folders above it are not looked at.

    Raises:
        BadUse: the file cannot be read, or has a ``cancel_*`` setting that does not exist.
    """
    for name in ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"):
        path = folder / name
        section = _section(path) if path.is_file() else None
        if section is None:
            continue
        found = {key: value for key, value in section.items() if key.startswith("cancel_")}
        known = {row.key for row in (*OPTIONS, *TERM_ROWS.values()) if row.is_setting}
        for key in found:
            if key not in known:
                raise BadUse(f"{path} has {key}, which is no setting; the settings are {', '.join(sorted(known))}")
        return {key: _ini_text(value) for key, value in found.items()}, {key: f"{key} in {name}" for key in found}
    return {}, {}


def _section(path: Path) -> Mapping[str, Any] | None:
    """pytest's part of a configuration file; None where it has none."""
    try:
        return _toml_section(path) if path.suffix == ".toml" else _ini_section(path)
    except (OSError, ValueError) as error:
        raise BadUse(f"{path} cannot be read: {error}") from error


def _toml_section(path: Path) -> Mapping[str, Any] | None:
    import tomllib

    read = tomllib.loads(path.read_text(encoding="utf-8"))
    if path.name != "pyproject.toml":
        section: Mapping[str, Any] = read.get("pytest", {})
        return section
    pytest_table = read.get("tool", {}).get("pytest")
    if pytest_table is None:
        return None
    return {**pytest_table, **pytest_table.get("ini_options", {})}


def _ini_section(path: Path) -> Mapping[str, Any] | None:
    import iniconfig

    try:
        read = iniconfig.IniConfig(str(path))
    except iniconfig.ParseError as error:
        raise ValueError(str(error)) from error
    name = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    if name in read:
        return dict(read[name].items())
    return {} if path.name.endswith("pytest.ini") else None


def _ini_text(value: object) -> str:
    return shlex.join(map(str, value)) if isinstance(value, list) else str(value)
