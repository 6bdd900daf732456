"""An adapter whose wrapper lives in the process that drives it, and kills that process's whole group."""

import os
import signal
import subprocess

import pytest

from pytest_cancelcontract import Hosted


class KillsItsOwnGroup:
    """The mistake of many a clean-up: the run has no group of its own, so the group that is killed is the caller's."""

    def start(self, run):
        return subprocess.Popen(run.argv, cwd=run.workspace, env=run.env)

    def cancel(self, agent):
        os.killpg(os.getpgid(agent.pid), signal.SIGKILL)

    def wait(self, agent):
        agent.wait()
        return "cancelled"


@pytest.mark.cancel_contract(grace=1, scenarios=["polite"])
def test_cancel_stops_the_agent(cancel_contract):
    cancel_contract.check(Hosted(KillsItsOwnGroup()))
