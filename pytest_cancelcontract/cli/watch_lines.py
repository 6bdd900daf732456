"""The lines of ``cancelcontract watch`` while it watches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from pytest_cancelcontract.report.fleeting import FLEETING_S


class WatchLines:
    """Prints what happens as it happens, a line each, in seconds from the press once there was one.

    ``pressed_s`` and ``reported_s`` are when cancel was pressed and the end reported, None before.
    """

    def __init__(self) -> None:
        self.pressed_s: float | None = None
        self.reported_s: float | None = None
        self._names: dict[str, str] = {}
        self._changed: set[str] = set()
        self._untold: dict[str, tuple[float, str]] = {}
        self._has_fleeting = False

    def say(self, text: str) -> None:
        """A word to the operator."""
        self._line("", text)

    def hear(self, witness: str, kind: str, subject: str, at_s: float, data: Mapping[str, Any]) -> None:
        """An observation of the recorder's, from within its event loop."""
        name = f"{witness}.{kind}"
        if name == "process-table.held":
            self._come(subject, at_s, data)
        elif name == "process-table.named":
            self._names[subject] = str(data.get("comm"))
        elif name == "process-table.died" and self._untold.pop(subject, None) is not None:
            self._has_come_and_gone()
        elif words := self._words(name, subject, at_s, data):
            self._tell(at_s, words)

    def _come(self, subject: str, at_s: float, data: Mapping[str, Any]) -> None:
        self._names[subject] = str(data.get("comm") or data.get("role"))
        self._untold[subject] = at_s, str(data.get("by"))
        if data.get("role") == "leader":
            self._tell_of(subject)
        else:
            asyncio.get_running_loop().call_later(FLEETING_S, self._tell_of, subject)

    def _tell_of(self, subject: str) -> None:
        """Tell of a process that came, unless it has been told or is gone."""
        if subject in self._untold:
            at_s, by = self._untold.pop(subject)
            self._tell(at_s, f"{self._who(subject)} is of the run, known by its {by.removeprefix('its ')}")

    def _has_come_and_gone(self) -> None:
        if not self._has_fleeting:
            self._has_fleeting = True
            self.say(f"processes that live for less than {FLEETING_S:g} s come and go: the history has them, and no line tells of them")

    def _words(self, name: str, subject: str, at_s: float, data: Mapping[str, Any]) -> str:
        if name == "process-table.died":
            return f"{self._who(subject)} is dead"
        if name == "process-table.stopped":
            return f"{self._who(subject)} is stopped"
        if name == "process-table.stranger":
            found = "; ".join(f"pid {one['pid']} ({one['name']})" for one in data["processes"])
            return f"not of the run as far as is known, but {data['what']}: {found}"
        if name == "adapter.pressed":
            for young in list(self._untold):
                self._tell_of(young)
            self.pressed_s = at_s
            return f"cancel is pressed ({data.get('how')})"
        if name == "adapter.cancel-returned" and data.get("error"):
            return f"the cancel command failed: {data['error']}"
        if name == "outcome.answer" and self.reported_s is None and data.get("outcome") in _terminal():
            self.reported_s = at_s
            return f"the end is reported: {data.get('outcome')} ({data.get('detail')})"
        if name == "workspace.changed" and str(data.get("path")) not in self._changed and not data.get("ignored"):
            self._changed.add(str(data.get("path")))
            return f"changed: {data.get('path')} ({data.get('what') or 'right after the end was reported'})"
        return f"problem: {data.get('what')}" if name == "drill.problem" else ""

    def _who(self, subject: str) -> str:
        return f"pid {subject.partition(':')[0]} ({self._names.get(subject, '?')})"

    def _tell(self, at_s: float, words: str) -> None:
        self._line("" if self.pressed_s is None else f"{at_s - self.pressed_s:+.3f} s", words)

    def _line(self, when: str, text: str) -> None:
        from pytest_cancelcontract.report.text import plain

        # A console that went away (a closed terminal, a pager) must not end the watching in the middle.
        with contextlib.suppress(OSError):
            print(f"{when:>10}  {plain(text)}", flush=True)


def _terminal() -> frozenset[str]:
    from pytest_cancelcontract.history import TERMINAL

    return TERMINAL
