"""A sample that cannot remove the workspace of a killed run says so and does not start in it, which is no breach of the contract."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.walk.samples import WRAPPERS

SAMPLE = WRAPPERS / "kept" / "refuses_what_it_cannot_remove.py"
NAMESPACE = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
"""A mount namespace of its own, so that what is mounted is seen by nobody else, and goes with the last process in it."""
MOUNTS_FIRST = """
mkdir -p "$1/mounted"
mountpoint -q "$1/mounted" || mount -t tmpfs none "$1/mounted"
exec "$PYTHON" "$SAMPLE" --grace 0.9 "$@"
"""


GREETS = """
mountpoint -q "$1/mounted" && { echo "worker 1.2 starting; settings loaded"; exit 73; }
mkdir -p "$1/mounted"
mount -t tmpfs none "$1/mounted"
exec "$PYTHON" "$SAMPLE" --grace 0.9 "$@"
"""
"""Refuses as well, and what it prints says nothing of why."""


def _can_mount(folder: Path) -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "none", str(folder)], capture_output=True).returncode == 0


def test_a_mount_in_the_workspace_makes_the_next_start_refuse_in_words(tmp_path: Path) -> None:
    """Nothing is emptied that is not the workspace's own, and nothing is started in what could not be removed."""
    found = _fresh_start(tmp_path, MOUNTS_FIRST)
    assert found["verdict"] == "kept", found
    assert "status 73" in found["observed"]
    assert f"{SAMPLE.name}: " in found["observed"]
    assert "mounted" in found["observed"]


def test_a_refusal_in_words_that_say_nothing_of_the_workspace_is_not_one_that_says_why(tmp_path: Path) -> None:
    found = _fresh_start(tmp_path, GREETS)
    assert found["verdict"] == "inconclusive", found
    assert "nothing was said of a mount" in found["observed"]


def _fresh_start(tmp_path: Path, text: str) -> dict[str, Any]:
    """The finding of a second run whose wrapper is this script."""
    if not _can_mount(tmp_path):
        pytest.skip("no mount namespace is to be had here")
    report, script = tmp_path / "report.json", tmp_path / "mounts_first.sh"
    script.write_text(text)
    words = [sys.executable, "-m", "pytest_cancelcontract.cli", "run", "--scenario", "second-run", "--grace", "1", "--report", str(report)]
    words += ["--history", str(tmp_path), "--", "sh", str(script), "{workspace}", "{source}", "{runner}"]
    # The drill's folder lies below TMPDIR, and stays with the empty place where something is mounted in it.
    place = tmp_path / "t"
    place.mkdir()
    env = {**os.environ, "PYTHON": sys.executable, "SAMPLE": str(SAMPLE), "TMPDIR": str(place)}
    done = subprocess.run([*NAMESPACE, *words], env=env, capture_output=True, text=True, timeout=50)
    assert report.exists(), done.stdout + done.stderr
    checks = {check["clause"]: check for check in json.loads(report.read_text())["drills"][0]["checks"]}
    return dict(checks["fresh-start"])
