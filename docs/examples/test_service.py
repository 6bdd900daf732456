"""A service: one command starts a run and ends, another cancels it, a third tells how it stands."""

import sys

import pytest

from pytest_cancelcontract import CommandAdapter


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child"])
def test_cancel_ends_the_job(cancel_contract):
    jobs = f"{sys.executable} jobs.py"
    service = CommandAdapter(
        start=f"{jobs} submit {{workspace}} {{source}} {{runner}}",
        cancel_with=f"{jobs} cancel {{id}}",
        outcome=f"{jobs} state {{id}}",
        outcome_map={"QUEUED": "running", "RUNNING": "running", "REVOKED": "cancelled", "DONE": "succeeded", "FAILED": "failed"},
    )
    cancel_contract.check(service)
