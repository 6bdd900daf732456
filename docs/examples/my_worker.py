"""A Temporal worker whose activity heartbeats on a timer of its own, and ends what it started before it is over."""

import asyncio
import os
import subprocess
from datetime import timedelta

from ending import end_group
from temporalio import activity, workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker


@activity.defn
async def run_agent(order):
    env = {**os.environ, **order["env"]}
    agent = subprocess.Popen(order["argv"], cwd=order["workspace"], env=env, process_group=0)
    beating = asyncio.create_task(beat())
    waiting = asyncio.create_task(asyncio.to_thread(agent.wait))
    try:
        await asyncio.shield(waiting)
    except asyncio.CancelledError:  # it comes on the answer to a heartbeat
        await asyncio.to_thread(end_group, agent, 0.7)
        raise
    finally:
        beating.cancel()  # and not before: without heartbeats the server takes the activity for dead


async def beat():
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.1)


@workflow.defn
class RunAgent:
    @workflow.run
    async def run(self, order: dict) -> None:
        await workflow.execute_activity(
            run_agent,
            order,
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=timedelta(seconds=2),
            # Or the workflow would be "cancelled" while the activity still ends its run.
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


def make_worker(client, task_queue):
    return Worker(
        client,
        task_queue=task_queue,
        workflows=[RunAgent],
        activities=[run_agent],
        workflow_runner=UnsandboxedWorkflowRunner(),
        # The SDK holds heartbeats back; the cancel comes no sooner than they go out.
        max_heartbeat_throttle_interval=timedelta(seconds=0.2),
    )
