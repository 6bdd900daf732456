"""A team's own test, from its file to what it reads: an activity that never heartbeats is found out, and the report says by what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.temporal import TemporalServer

pytestmark = [pytest.mark.xdist_group("temporal"), pytest.mark.timeout(120)]

TEAMS_WORKER = """
import asyncio
import os
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.worker import Worker


@activity.defn
async def run_agent(order: dict) -> None:
    process = await asyncio.create_subprocess_exec(*order["argv"], cwd=order["workspace"], env={**os.environ, **order["env"]})
    await process.wait()


@workflow.defn
class RunAgent:
    @workflow.run
    async def run(self, order: dict) -> None:
        await workflow.execute_activity(run_agent, order, start_to_close_timeout=timedelta(minutes=1))


def make_worker(client, task_queue):
    return Worker(client, task_queue=task_queue, workflows=[RunAgent], activities=[run_agent])
"""

TEAMS_TEST = """
import os

import pytest
from pytest_cancelcontract.adapters.temporal import TemporalAdapter


@pytest.mark.cancel_contract(delivery=1, grace=1, kill_within=1, scenarios=["polite"])
def test_cancel_stops_the_agent(cancel_contract):
    cancel_contract.check(TemporalAdapter("RunAgent", server=os.environ["TEAMS_SERVER"], worker="teams_worker.py:make_worker"))
"""


@pytest.mark.slow
def test_an_activity_that_never_heartbeats_is_found_out(
    pytester: pytest.Pytester, temporal: TemporalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow says cancelled in a fraction of a second, and the process writes on."""
    monkeypatch.setenv("TEAMS_SERVER", temporal.address)
    pytester.makepyfile(teams_worker=TEAMS_WORKER, test_teams=TEAMS_TEST)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", timeout=90)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    for clause in ("cancel-delivered", "no-survivors", "no-late-writes", "outcome-not-early"):
        assert f"polite:{clause}" in text, clause
    result.stdout.fnmatch_lines(["*'cancelled' reported +0.* s, gone never seen; alive as it was reported*"])
    result.stdout.fnmatch_lines(["*changed after the handover: *uncooperative-leader.log by pid *"])
