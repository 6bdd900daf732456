"""``cancelcontract doctor``: what this machine can witness, and the proof of it on a kept and a broken control."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cancelcontract.cli.parser import Actions

if TYPE_CHECKING:
    from pytest_cancelcontract.doctor.probes import Row
    from pytest_cancelcontract.doctor.proof import Proof

NAME = "doctor"
NOT_PROVEN = 1
WIDEST = 120
_MARGIN = 30


def add_to(actions: Actions) -> None:
    """Make its parser."""
    actions.add_parser(
        NAME,
        help="say what this machine can witness, and prove it",
        description="Say what this machine can witness, what that means for the verdicts, and what to do; then prove it: drill a wrapper"
        " that keeps the contract and one that breaks it. Takes about five seconds.",
        epilog="exit status: 0 where the kept control is found kept and the broken one broken; 1 where not.",
        allow_abbrev=False,
    )


def main(_options: argparse.Namespace, _command: Sequence[str]) -> int:
    """Print what was found; 0 only where the proof holds."""
    from pytest_cancelcontract.doctor import probes
    from pytest_cancelcontract.recorder import machine

    width = min(WIDEST, shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDEST)
    facts = machine.facts()
    print(f"{facts['system']} {facts['release']} ({facts['machine']}), {facts['cpus']} processors, Python {facts['python']}\n")
    found = probes.rows()
    print("\n".join(line for row in found for line in _row_lines(row, width)), flush=True)
    if found[0].sight is probes.Sight.NONE:
        print("\nnot proven: no drill can be run here")
        return NOT_PROVEN
    from pytest_cancelcontract.doctor.proof import prove

    folder = Path(tempfile.mkdtemp(prefix="cancelcontract-doctor-"))
    is_needed = False
    try:
        status = conclude(prove(folder), folder, width)
        is_needed = status != 0  # its histories say why
        return status
    finally:
        if not is_needed:
            shutil.rmtree(folder, ignore_errors=True)


def _row_lines(row: Row, width: int) -> Iterator[str]:
    first = f"{row.name:<18}  {row.sight:<8}  "
    yield from _wrapped(f"{row.seen}; {row.means}", first, width)
    if row.do:
        yield from _wrapped(row.do, f"{'':<18}  {'do':<8}  ", width)


def _wrapped(text: str, first: str, width: int) -> list[str]:
    from pytest_cancelcontract.report.text import plain

    return textwrap.wrap(
        plain(text), width, initial_indent=first, subsequent_indent=" " * _MARGIN, break_on_hyphens=False, break_long_words=False
    )


def conclude(proofs: Sequence[Proof], folder: Path, width: int = WIDEST) -> int:
    """Print what the controls were found to be, and return the exit status; ``folder`` has their histories."""
    print()
    for proof in proofs:
        print("\n".join(_proof_lines(proof, width)))
    if all(proof.holds for proof in proofs):
        print("\nproven: this machine tells a wrapper that keeps the contract from one that breaks it")
        return 0
    print(f"\nnot proven: until the controls are found as they are, no verdict of this machine is worth anything; histories in {folder}")
    return NOT_PROVEN


def _proof_lines(proof: Proof, width: int) -> Iterator[str]:
    from pytest_cancelcontract.doctor.proof import SCENARIO, SHOWN_BY

    first = f"{f'{proof.name} control':<18}  {'yes' if proof.holds else 'no':<8}  "
    result = proof.result
    if result is None:
        yield from _wrapped(f"could not be drilled: {proof.error}", first, width)
        return
    shown = [check for check in result.checks if check.clause == SHOWN_BY] if proof.holds else []
    shown = shown or [check for check in result.checks if check.verdict is result.verdict]
    told = "; ".join(f"{check.clause}: {check.finding.observed}" for check in shown[:2])
    instead = "" if proof.holds else f" and not {proof.expected}, as it is"
    yield from _wrapped(f"{SCENARIO} is found {result.verdict}{instead}; {told}", first, width)
