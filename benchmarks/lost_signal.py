"""How many SIGTERMs a Python wrapper never acts on while it sits in ``Popen.communicate()``, beside the same with ``Popen.wait()``.

A signal that comes between two reads of the child's output only sets a mark, which the interpreter looks at when the read-all is
over: where the child goes on printing, that is when it ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

from benchmarks.sides import show_amount

TIMES = 40
WITHIN_S = 1.0
SITS_AFTER_S = 0.05
WRAPPER = """
import signal, subprocess, sys
chatty = "import os, time\\nwhile True:\\n    os.write(1, b'a line\\\\n')\\n    time.sleep(0.0002)"
output = subprocess.PIPE if sys.argv[1] == "communicate" else subprocess.DEVNULL
child = subprocess.Popen([sys.executable, "-I", "-S", "-c", chatty], stdout=output)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
print(child.pid, file=sys.stderr, flush=True)
child.communicate() if sys.argv[1] == "communicate" else child.wait()
"""


def is_lost(way: str) -> bool:
    """Whether a wrapper that waits in this way let a SIGTERM pass by; it and its child are ended."""
    with subprocess.Popen([sys.executable, "-c", WRAPPER, way], stderr=subprocess.PIPE) as wrapper:
        assert wrapper.stderr is not None
        child = int(wrapper.stderr.readline())
        time.sleep(SITS_AFTER_S)  # nothing tells from outside that it reads
        wrapper.terminate()
        try:
            wrapper.wait(WITHIN_S)
            return False
        except subprocess.TimeoutExpired:
            # The wrapper waits for its child still, so the pid is the child's.
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            return True


def main() -> None:
    """Print both sides."""
    for way in ("communicate", "wait"):
        show_amount(f"lost in Popen.{way}(), of {TIMES}", sum(is_lost(way) for _ in range(TIMES)), "SIGTERMs")


if __name__ == "__main__":
    main()
