"""The control that breaks the contract: ``python broken.py RUNNER…``.

Told by SIGTERM to stop, it ends the process that it started and waits for that one alone. What came of it lives on, and works.
Standard library only.
"""

from __future__ import annotations

import signal
import subprocess
import sys


def main(command: list[str]) -> int:
    """Run the command to its end, or until SIGTERM comes."""
    told: list[int] = []
    runner = subprocess.Popen(command)

    def stop(number: int, _frame: object) -> None:
        told.append(number)
        runner.terminate()

    signal.signal(signal.SIGTERM, stop)
    status = runner.wait()
    return 128 + told[0] if told else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
