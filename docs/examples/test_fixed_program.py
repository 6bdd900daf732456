"""A wrapper that takes no command line: it calls a program by its name, found on the PATH."""

import sys
from pathlib import Path

import pytest

from pytest_cancelcontract import CommandAdapter

WRAPPER = str(Path(__file__).with_name("calls_claude.py"))


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf"])
def test_cancel_stops_claude(cancel_contract):
    cancel_contract.check(CommandAdapter([sys.executable, WRAPPER], shims=["claude"]))
