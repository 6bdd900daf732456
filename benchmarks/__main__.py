"""``make bench``: all measurements, or those that are named: ``python -m benchmarks death_seen runner_ready``."""

from __future__ import annotations

import importlib
import sys

from benchmarks.sides import machine_line

ALL = (
    "death_seen",
    "import_cost",
    "runner_ready",
    "workspace_look",
    "drill_wall",
    "core_set",
    "all_set",
    "recorder_memory",
    "lost_signal",
    "meter",
    "html_report",
)


def main(names: list[str]) -> int:
    """Run the named measurements and print what each found."""
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"unknown measurement {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    print(machine_line(), flush=True)
    for name in names or ALL:
        print(f"\n{name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
