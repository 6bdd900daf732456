"""The object behind the fixture ``cancel_contract``: run this test's drill, and fail the test where the contract is not kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_cancelcontract.assertions import ContractBroken, ContractInconclusive
from pytest_cancelcontract.drill import DrillError, DrillSkipped
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import BadHistory, History, load
from pytest_cancelcontract.judging import Failure, Fault, failures, is_nothing_judged
from pytest_cancelcontract.recorder.client import RecorderFailed
from pytest_cancelcontract.report.text import failure_message, stale_message
from pytest_cancelcontract.session import Order, Say, Session, running_library

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.protocol import Adapter
    from pytest_cancelcontract.conduct import DrillResult
    from pytest_cancelcontract.options import Request, Settings
    from pytest_cancelcontract.report.baseline import Accepted
    from pytest_cancelcontract.scenarios import Scenario
    from pytest_cancelcontract.terms import Terms

_UNPROVEN = "nothing proves that it is kept, so it does not count as kept"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a check stands: the test, what it asked for, and what the plugin does around a drill.

    ``before`` is called with the adapter right before the drill, ``after`` right behind it; ``record`` takes the drill's result.
    ``accepted`` is what the baseline accepts in this test, if there is one.
    """

    nodeid: str
    rerun: str
    request: Request
    scenario: Scenario
    settings: Settings
    session: Session
    say: Say
    before: Callable[[Adapter], object]
    after: Callable[[Adapter], object]
    record: Callable[[Mapping[str, Any]], object]
    accepted: Accepted | None = None


class CancelContract:
    """What a test calls: ``cancel_contract.check(TeamAdapter())``, or ``await cancel_contract.acheck(…)``."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._key = place.nodeid
        self.is_used = False
        self.is_promised = False

    @property
    def scenario(self) -> Scenario:
        """The scenario of this test."""
        return self._place.scenario

    @property
    def terms(self) -> Terms:
        """The terms of this test."""
        return self._place.request.terms

    def check(self, adapter: Adapter) -> DrillResult:
        """Run the drill and judge it.

        Raises:
            ContractBroken: a clause is broken (or expected to be, and kept).
            ContractInconclusive: nothing can be said of a clause, or of all.
            DrillError: the drill could not be run; that is no verdict on the wrapper's cancel.
            RuntimeError: on a running event loop, which this call would block.
        """
        __tracebackhide__ = True
        if running_library():
            self.is_used = True
            raise RuntimeError(
                "cancel_contract.check() was called on a running event loop, which it would block;"
                " in an async test write: await cancel_contract.acheck(adapter)"
            )
        order = self._begin(adapter)
        try:
            result = self._place.session.run(order, adapter, self._place.say)
        except (DrillError, RecorderFailed) as error:
            raise self._remembered(self._not_run(error)) from None
        finally:
            self._place.after(adapter)
        return self._conclude(result)

    def acheck(self, adapter: Adapter) -> Any:
        """The same, to be awaited in an async test (on asyncio or trio); the loop goes on meanwhile."""
        # A plain function that returns the coroutine: a call that is never awaited can then be told from no call at all.
        self.is_promised = True
        return self._acheck(adapter)

    async def _acheck(self, adapter: Adapter) -> DrillResult:
        __tracebackhide__ = True
        if not running_library():
            self.is_used = True
            raise RuntimeError(
                "cancel_contract.acheck() was awaited where neither asyncio nor trio runs, and it can wait on no other loop;"
                " in a test without one write: cancel_contract.check(adapter)"
            )
        order = self._begin(adapter)
        try:
            result = await self._place.session.run_async(order, adapter, self._place.say)
        except (DrillError, RecorderFailed) as error:
            raise self._remembered(self._not_run(error)) from None
        finally:
            self._place.after(adapter)
        return self._conclude(result)

    def complaint(self) -> str:
        """What is wrong with a test that has ended without a verdict; empty where it had one."""
        if self.is_used:
            return ""
        if self.is_promised:
            return "the test called cancel_contract.acheck() but did not await it, so nothing was checked"
        return (
            "the test uses the fixture cancel_contract but never called cancel_contract.check(adapter)"
            " (async: await cancel_contract.acheck(adapter)), so nothing was checked"
        )

    def _begin(self, adapter: Adapter) -> Order:
        __tracebackhide__ = True
        # A second check in the same test is a drill of its own; the first is the one that may have been started ahead.
        self._key = f"{self._place.nodeid} again" if self.is_used else self._place.nodeid
        self.is_used = True
        earlier = self._place.session.failed.get(self._key)
        if earlier is not None:
            # Only a plugin that runs failed tests again comes here; the drill would be another one, and could be luckier.
            raise earlier
        self._place.session.driver(adapter)  # what cannot be driven is refused here, in the test's own thread
        self._place.before(adapter)
        asked = self._place.request
        return Order(self._key, self._place.scenario, asked.terms, asked.clauses, asked.rules)

    def _conclude(self, result: DrillResult) -> DrillResult:
        __tracebackhide__ = True
        place = self._place
        reasons = {**(place.accepted.broken if place.accepted else {}), **place.request.expected}
        expected = {check.clause: reason for check in result.checks if (reason := reasons.get(check.id))}
        history = _read(result.history)
        asked = {"expected": expected, "chosen": place.request.clauses, "rerun": place.rerun}
        place.record({**result.as_dict(), **asked, **_header_fields(history)})
        found = failures(
            result.checks,
            level=place.settings.level,
            fails_not_covered=place.settings.fails_not_covered,
            expected=place.request.expected,
            accepted=place.accepted,
        )
        if found:
            raise self._remembered(_error(found, history, place))
        if not result.attempts:
            import pytest

            pytest.skip(f"{result.scenario} is not covered: it takes {result.checks[0].finding.lacks}")
        if is_nothing_judged(result.checks):
            raise self._remembered(ContractInconclusive(_nothing_judged(result, place)))
        return result

    def _not_run(self, error: Exception) -> DrillError:
        """The same error, so worded that nobody takes it for a verdict; the report has the drill, with nothing measured."""
        if isinstance(error, DrillSkipped):
            import pytest

            pytest.skip(str(error))
        self._place.record({"scenario": self.scenario.id, "verdict": str(Verdict.INCONCLUSIVE), "error": str(error)})
        kind = type(error) if isinstance(error, DrillError) else DrillError
        return kind(f"the drill {self.scenario.id} could not be run, so no clause was judged: {error}")

    def _remembered(self, error: Exception) -> Exception:
        self._place.session.failed[self._key] = error
        # The frames of the drill's own thread say nothing about the wrapper; the message does.
        return error.with_traceback(None)


def _error(found: list[Failure], history: History | None, place: Place) -> Exception:
    messages = []
    for number, failure in enumerate(found):
        if failure.fault is Fault.STALE:
            messages.append(stale_message(failure.check, place.request.expected[failure.check.id]))
        else:
            is_last = number == len(found) - 1
            messages.append(
                failure_message(
                    failure.check, history if is_last else None, rerun=place.rerun if is_last else "", note=_note(failure.fault, place)
                )
            )
    text = "\n\n".join(messages)
    return ContractBroken(text) if found[0].fault in {Fault.BROKEN, Fault.STALE} else ContractInconclusive(text)


def _note(fault: Fault, place: Place) -> str:
    if fault is Fault.NOT_COVERED:
        return f"not covered fails here ({place.settings.origin('cancel_not_covered')} is fail)"
    return _UNPROVEN if fault is Fault.INCONCLUSIVE else ""


def _nothing_judged(result: DrillResult, place: Place) -> str:
    lacking = ", ".join(dict.fromkeys(check.finding.lacks for check in result.checks if check.finding.lacks))
    return (
        f"cancel contract inconclusive: {place.scenario.id}\n"
        f"  observed    no clause of the scenario could be judged{f'; the adapter lacks {lacking}' if lacking else ''}\n"
        f"  rerun       {place.rerun}\n"
        f"  history     {result.history}"
    )


def _read(path: str) -> History | None:
    try:
        return load(path)
    except (OSError, BadHistory):
        return None


def _header_fields(history: History | None) -> dict[str, Any]:
    header = history.header if history is not None else {}
    return {"terms": header.get("terms"), "machine": header.get("machine")}
