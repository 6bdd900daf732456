"""A test's name as one machine can tell another. Pure."""

from __future__ import annotations

import re

from pytest_cancelcontract.report.text import plain

_CONFORMANCE = re.compile(r"(.*/)?(conformance\.py)?::test_cancel_contract")


def portable(test: str | None) -> str:
    """The node id without the scenario, as ``test_x.py::test_it[slow]``; ``""`` for the test that needs no code.

    That one is named after the folder in which the package happens to be installed, and it is the only one of its run.
    """
    return "" if test is None or _CONFORMANCE.fullmatch(test) else plain(test)
