"""Two wrappers that ship: one that keeps the contract, one that breaks it. What cannot tell them apart can witness nothing.

They are run by file path, as a team's own wrapper would be, and nothing imports them.
"""

from __future__ import annotations

from pathlib import Path

KEPT = Path(__file__).with_name("kept.py")
"""``python kept.py GRACE_S RUNNER…``: whatever it started is dead when it ends."""
BROKEN = Path(__file__).with_name("broken.py")
"""``python broken.py RUNNER…``: it ends the process that it started, and none of those that came of it."""
