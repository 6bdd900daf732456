"""The contract as a test that needs no code.

For ``cancelcontract run``, for ``pytest --pyargs pytest_cancelcontract.conformance``, and to be imported into a team's own file,
where the fixture ``cancel_adapter`` may be overridden and the file's markers hold::

    from pytest_cancelcontract.conformance import test_cancel_contract
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.protocol import Adapter
    from pytest_cancelcontract.checking import CancelContract


def test_cancel_contract(cancel_contract: CancelContract, cancel_adapter: Adapter) -> None:
    """The wrapper keeps the contract in this scenario."""
    cancel_contract.check(cancel_adapter)


# Collected whatever the project's python_functions say: pytest takes this for the test's own word.
test_cancel_contract.__test__ = True  # type: ignore[attr-defined]
