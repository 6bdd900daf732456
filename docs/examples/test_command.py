"""A wrapper that is a command line; ``subreaper.py`` is the sample that keeps the whole contract."""

import sys

import pytest

from pytest_cancelcontract import CommandAdapter

WRAPPER = [sys.executable, "subreaper.py", "--grace", "0.8", "{workspace}", "{source}", "{runner}"]


@pytest.fixture(scope="session")
def cancel_adapter():
    return CommandAdapter(WRAPPER)


@pytest.mark.cancel_contract(grace=1, scenarios=["polite", "deaf-child"])
def test_cancel_stops_the_agent(cancel_contract, cancel_adapter):
    cancel_contract.check(cancel_adapter)


@pytest.mark.cancel_contract(grace=1, scenarios=["polite"])
def test_ctrl_c_stops_it_too(cancel_contract):
    cancel_contract.check(CommandAdapter(WRAPPER, cancel_with="INT"))
