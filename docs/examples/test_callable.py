"""A wrapper that is a function which blocks, and another function that ends it."""

import subprocess

import pytest
from ending import end_group

from pytest_cancelcontract import CallableAdapter


class AgentPool:
    """Runs agents, and ends one when it is told to."""

    def __init__(self):
        self.agents = {}
        self.cancelled = set()

    def run(self, run):
        agent = self.agents[run.id] = subprocess.Popen(run.argv, cwd=run.workspace, env=run.env, process_group=0)
        if run.id in self.cancelled:  # it came before there was an agent
            end_group(agent, 0.7)
        status = agent.wait()
        if run.id in self.cancelled:
            end_group(agent, 0.7)  # returns when nothing of the group is left
            return "cancelled"
        return "succeeded" if status == 0 else "failed"

    def cancel(self, run):
        self.cancelled.add(run.id)
        if run.id in self.agents:
            end_group(self.agents[run.id], 0.7)


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child"])
def test_cancel_stops_the_agent(cancel_contract):
    pool = AgentPool()
    cancel_contract.check(CallableAdapter(pool.run, cancel=pool.cancel))
