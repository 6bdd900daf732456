"""One real server for this folder, one recorder, and an adapter for the sample activities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import Terms, settle_terms

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter, TemporalServer

WORKER = f"{Path(__file__).with_name('activities.py')}:make_worker"
GRACE_S = 0.8
TERMS = {"delivery": 2.0, "grace": 1.0, "kill_within": 2.5, "settle": 0.1, "retry": 1.0, "start": 20.0, "call": 10.0}
"""``kill_within`` is long: from gone to reported it takes two more turns between worker and server, on a machine that may be busy."""
MakeAdapter = Callable[..., "TemporalAdapter"]


@pytest.fixture(scope="session")
def temporal(cancel_temporal: TemporalServer) -> TemporalServer:
    """The plugin's own server; tests are skipped, and say what to install, where the extra is missing."""
    return cancel_temporal


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    started = Recorder.start()
    yield started
    started.close()


@pytest.fixture(scope="session")
def terms() -> Terms:
    return settle_terms({name: (value, "the test") for name, value in TERMS.items()})


@pytest.fixture(scope="session")
def make_adapter(temporal: TemporalServer) -> MakeAdapter:
    """``make_adapter("kept", cancellation="TRY_CANCEL")``: what else is given goes to the workflow, or with ``more`` to the adapter.

    With ``generations`` the activity is so many child workflows below the one that is started.
    """
    from pytest_cancelcontract.adapters.temporal import TemporalAdapter, order_of

    def made(activity: str, *, more: dict[str, Any] | None = None, **given: Any) -> TemporalAdapter:
        order = {
            "activity": activity,
            "cancellation": "WAIT_CANCELLATION_COMPLETED",
            "heartbeat_timeout": 2.0,
            "start_to_close": 60.0,
            "attempts": 1,
            "grace": GRACE_S,
            "floor_limit": 60.0,
            "generations": 0,
            "stall_after": None,
            "lease": None,
            **given,
        }
        settings: dict[str, Any] = {"server": temporal, "worker": WORKER, "argument": lambda run: {**order_of(run), **order}}
        return TemporalAdapter("Delegates" if order["generations"] else "Wraps", **{**settings, **(more or {})})

    return made
