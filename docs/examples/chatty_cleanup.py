"""A scenario of one's own: a runner that floods both pipes, and has a clean-up to do."""

from __future__ import annotations

from pytest_cancelcontract.scenarios import AFTER_PRESS, Scenario

ROW = Scenario(
    "chatty-cleanup",
    ("slow-cleanup", "chatty"),  # habits of the runner, which go together
    ("grace-given", *AFTER_PRESS),  # what judges it
    "floods both pipes, cleans up at notice, then ends",
    cleans_up=True,
)
