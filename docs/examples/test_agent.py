"""An agent's own command line in a test; ``ends_its_tools.py`` is one of the sample agents, and keeps everything."""

import sys
from pathlib import Path

from pytest_cancelcontract import assert_no_late_writes, assert_no_survivors, assert_spend_stops

AGENT = [sys.executable, str(Path(__file__).with_name("ends_its_tools.py")), "{provider}", "{workspace}", "{prompt}"]


def test_our_agent_ends_its_tools(agent_runner):
    result = agent_runner(AGENT, moment="tool", signal="TERM", grace=1)
    assert_no_survivors(result)
    assert_no_late_writes(result)
    assert_spend_stops(result)
