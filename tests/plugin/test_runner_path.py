"""The program for workers that are up before any drill: it becomes the runner of the one drill in flight, or refuses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_cancelcontract.runner_path import RunnerPath


def call(path: RunnerPath) -> subprocess.CompletedProcess[str]:
    return subprocess.run([path.shim("my agent") / "my agent", "-p", "a  b"], capture_output=True, text=True, timeout=10)


def test_it_becomes_the_runner_of_the_drill_in_flight_and_passes_its_arguments_on(tmp_path: Path) -> None:
    path = RunnerPath(tmp_path / "it's here")
    path.announce("d1", ["printf", "<%s>", "it's"])
    assert call(path).stdout == "<it's><-p><a  b>"
    path.withdraw("d1")
    path.announce("d2", ["printf", "second"])
    assert call(path).stdout == "second"


def test_it_refuses_without_a_drill_and_with_several(tmp_path: Path) -> None:
    path = RunnerPath(tmp_path / "path")
    none = call(path)
    assert (none.returncode, none.stdout) == (70, "")
    assert "no drill is in flight" in none.stderr
    path.announce("d1", ["true"])
    path.announce("d2", ["true"])
    several = call(path)
    assert several.returncode == 70
    assert "several drills are in flight" in several.stderr and "--cancel-jobs 1" in several.stderr


@pytest.mark.parametrize("name", ["", "a/b", ".", ".."])
def test_a_shims_name_is_a_plain_program_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="plain program name"):
        RunnerPath(tmp_path / "path").shim(name)
