"""What the plugin costs a pytest run without drills: time and modules, beside the same run without the plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.sides import in_turn, ratio, show

TIMES = 40
# As installed: with compiled files.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PROGRAM = """
import sys, time, _pytest.config, pytest, {extra}
before = set(sys.modules)
began = time.perf_counter()
{load}
took = time.perf_counter() - began
print(took, len(set(sys.modules) - before))
"""


def run(*arguments: str, folder: str) -> None:
    """One whole pytest run that collects one empty test."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=ENVIRONMENT)


def import_alone() -> tuple[float, int]:
    """Seconds and new modules of importing the plugin after pytest itself."""
    # The standard modules that any pytest run has loaded are loaded before.
    program = PROGRAM.format(extra="os", load="import pytest_cancelcontract.plugin")
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout.split()
    return float(printed[0]), int(printed[1])


def main() -> None:
    """Print both sides of whole runs, then the import by itself."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_one.py").write_text("def test_one():\n    pass\n")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        ours, theirs = in_turn(lambda: run(folder=folder), lambda: run("-p", "no:cancelcontract", folder=folder), TIMES)
    show("pytest with the plugin", ours)
    show("pytest without it", theirs)
    ratio(ours, theirs, "whole runs")
    alone = [import_alone() for _ in range(TIMES)]
    show("import of the plugin alone", [seconds for seconds, _ in alone])
    print(f"  new modules {max(modules for _, modules in alone)} (figure: at most 3 ms and 4 modules)")


if __name__ == "__main__":
    main()
