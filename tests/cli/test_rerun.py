"""The command that runs one drill again: all that was given for it, and nothing that was asked of the whole run."""

from __future__ import annotations

from pytest_cancelcontract.cli.run import _rerun
from pytest_cancelcontract.option_table import NOT_FOR_ONE_DRILL, OPTIONS


def test_an_option_that_was_repeated_is_repeated() -> None:
    before, after = _rerun({"cancel_ignore": ["*.tmp", "a b"], "cancel_grace": 2.0, "cancel_wrapper": "wrap {runner}"})
    assert (before, after) == ("cancelcontract run --ignore '*.tmp' --ignore 'a b' --grace 2", " -- wrap {runner}")


def test_what_was_asked_of_the_whole_run_is_left_out() -> None:
    given = {row.key: True if row.kind == "flag" else ["x"] if row.kind == "words" else "x" for row in OPTIONS}
    words = _rerun(given)[0].split()
    assert {row.key for row in OPTIONS if f"--{row.name}" in words} == {row.key for row in OPTIONS} - NOT_FOR_ONE_DRILL - {"cancel_wrapper"}


def test_what_is_left_out_are_options() -> None:
    assert {row.key for row in OPTIONS} >= NOT_FOR_ONE_DRILL
