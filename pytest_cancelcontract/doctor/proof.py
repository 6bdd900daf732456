"""Drill the two controls: whoever finds the kept one kept and the broken one broken can witness the contract here."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from pytest_cancelcontract.adapters.command import CommandAdapter
from pytest_cancelcontract.adapters.driver import Driver
from pytest_cancelcontract.conduct import DrillResult, conduct
from pytest_cancelcontract.controls import BROKEN, KEPT
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.client import Recorder, RecorderFailed
from pytest_cancelcontract.scenarios import by_id
from pytest_cancelcontract.terms import Terms, settle_terms

SCENARIO = "deaf-child"
"""Its leader obeys and its child does not: the least that a careless wrapper leaves behind."""
SHOWN_BY = "no-survivors"
"""The clause that the broken control must be found to break."""
GRACE_S = 0.3
"""What the kept control gives the runner; less than the terms allow, since it needs a moment of its own."""
_TERMS = {"delivery": 0.5, "grace": 0.5, "kill_within": 0.5, "settle": 0.15, "spend_within": 0.2, "start": 10.0, "call": 10.0}


@dataclass(frozen=True, slots=True)
class Proof:
    """One control, what was to be found of it, and what was: its drill, or why that could not be run."""

    name: str
    expected: Verdict
    result: DrillResult | None
    error: str = ""

    @property
    def holds(self) -> bool:
        """What was to be found was found: of the broken control a certain clause broken, of the other one none."""
        if self.result is None or self.result.verdict is not self.expected:
            return False
        return self.expected is Verdict.KEPT or any(
            check.clause == SHOWN_BY and check.verdict is Verdict.BROKEN for check in self.result.checks
        )


def terms() -> Terms:
    """The terms of the two drills, short enough for a look."""
    return settle_terms({name: (value, "doctor") for name, value in _TERMS.items()})


def prove(folder: Path, *, kept: Path = KEPT, broken: Path = BROKEN) -> tuple[Proof, Proof]:
    """Drill both controls, one beside the other; the histories go into ``folder``.

    Args:
        kept: in place of the kept control.
        broken: in place of the broken one.
    """
    wanted = (
        ("kept", Verdict.KEPT, [sys.executable, str(kept), f"{GRACE_S:g}", "{runner}"]),
        ("broken", Verdict.BROKEN, [sys.executable, str(broken), "{runner}"]),
    )
    try:
        recorder = Recorder.start()
    except (RecorderFailed, OSError) as error:
        why = f"the recorder could not be started: {error}"
        first, second = (Proof(name, expected, None, why) for name, expected, _ in wanted)
        return first, second
    found: dict[str, Proof] = {}

    def drill(name: str, expected: Verdict, command: list[str]) -> None:
        found[name] = _drill(recorder, name, expected, command, folder)

    threads = [threading.Thread(target=drill, args=one, name=f"cancelcontract-control-{one[0]}", daemon=True) for one in wanted]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        recorder.close()
    return found["kept"], found["broken"]


def _drill(recorder: Recorder, name: str, expected: Verdict, command: list[str], folder: Path) -> Proof:
    driver = Driver(CommandAdapter(command))
    try:
        result = conduct(recorder, driver, by_id(SCENARIO), terms(), history=folder / f"{name}.jsonl", wrapper=f"the {name} control")
    except (DrillError, RecorderFailed) as error:
        return Proof(name, expected, None, str(error))
    except Exception as error:  # a machine on which this can happen is what the doctor is asked about
        return Proof(name, expected, None, repr(error))
    finally:
        driver.close()
    return Proof(name, expected, result)
