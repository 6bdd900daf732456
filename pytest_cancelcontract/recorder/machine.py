"""Facts about the machine that go into every history and report."""

from __future__ import annotations

import os
import platform
from functools import cache
from typing import Any


@cache
def facts() -> dict[str, Any]:
    """Kernel, processor count and Python version; no host name, no path, no user."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
