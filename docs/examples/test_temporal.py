"""An activity under a real Temporal server."""

from pathlib import Path

import pytest

from pytest_cancelcontract import TemporalAdapter

WORKER = f"{Path(__file__).with_name('my_worker.py')}:make_worker"


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child"])
def test_cancel_stops_the_agent(cancel_contract, cancel_temporal):
    cancel_contract.check(TemporalAdapter("RunAgent", server=cancel_temporal, worker=WORKER))
