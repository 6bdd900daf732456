"""What is said where Temporal is not installed."""

from __future__ import annotations

from pytest_cancelcontract.adapters.coroutine import LibraryMissing

INSTALL = "pip install 'pytest-cancelcontract[temporal]'"


def missing(what: str) -> LibraryMissing:
    """The error to raise for it: it names what is missing, and the command that brings it."""
    return LibraryMissing(f"drills under Temporal need {what}, which is not installed here: {INSTALL}")
