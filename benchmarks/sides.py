"""Two sides of a measurement, taken in turn so that a machine whose speed drifts treats both alike."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence


def machine_line() -> str:
    """What the figures were taken on."""
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, Python {platform.python_version()}, load {load}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(name: str, seconds: Sequence[float]) -> None:
    """One side: its median, 99th percentile and extremes, in milliseconds."""
    ms = [value * 1000 for value in seconds]
    print(
        f"  {name:<34} median {statistics.median(ms):8.3f} ms   p99 {quantile(ms, 0.99):8.3f}   min {min(ms):8.3f}"
        f"   max {max(ms):8.3f}   n {len(ms)}",
        flush=True,
    )


def show_amount(name: str, value: float, unit: str) -> None:
    """One side that is a single amount."""
    print(f"  {name:<34} {value:8.1f} {unit}", flush=True)


def ratio(ours: Sequence[float], theirs: Sequence[float], figure: str) -> None:
    """The ratio of the medians, and the figure that it is meant to reach."""
    print(f"  ratio of medians {statistics.median(ours) / statistics.median(theirs):.2f} ({figure})", flush=True)


def in_turn(ours: Callable[[], None], theirs: Callable[[], None], times: int) -> tuple[list[float], list[float]]:
    """How long each took, in seconds, run in turn after one run of each that does not count."""
    sides: tuple[list[float], list[float]] = ([], [])
    for number in range(times + 1):
        for side, act in zip(sides, (ours, theirs), strict=True):
            began = time.perf_counter()
            act()
            if number:
                side.append(time.perf_counter() - began)
    return sides
