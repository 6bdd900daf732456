"""A wrapper that is a coroutine: cancelled as asyncio cancels a task."""

import asyncio
import subprocess

import pytest
from ending import end_group

from pytest_cancelcontract import CoroutineAdapter


async def run_agent(run):
    agent = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, process_group=0)
    waiting = asyncio.create_task(asyncio.to_thread(agent.wait))
    try:
        # Shielded: a cancelled wait would leave its thread behind all the same.
        return "succeeded" if await asyncio.shield(waiting) == 0 else "failed"
    except asyncio.CancelledError:
        await asyncio.to_thread(end_group, agent, 0.7)
        raise  # or the outcome would be "succeeded"


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child"])
def test_cancelling_the_task_stops_the_agent(cancel_contract):
    cancel_contract.check(CoroutineAdapter(run_agent))
