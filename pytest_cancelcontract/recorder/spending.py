"""The meter's book of one drill: what its runs ask of the provider goes into the history, and what is open can be asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_cancelcontract.answers import Answer, Asked
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.meter import runner_answers
from pytest_cancelcontract.recorder.meter.account import Account, Choose
from pytest_cancelcontract.recorder.meter.server import Meter
from pytest_cancelcontract.recorder.plan import FIRST


class Spending:
    """The accounts of a drill's runs, a token each.

    ``providers`` are the meter's addresses, in the order in which a runner shall try them; ``last_request_s`` is when the cancelled run
    began its last request (monotonic, seconds), ``main_requests`` how many it made that take an answer from a script, and
    ``most_tokens`` how many the one with the most of them got. ``heard`` is called behind every note.
    """

    def __init__(self, meter: Meter, journal: Journal, providers: Sequence[str]) -> None:
        self.providers = tuple(providers)
        self.last_request_s: float | None = None
        self.main_requests = 0
        self.most_tokens = 0
        self.heard: Callable[[], None] = lambda: None
        self._meter = meter
        self._journal = journal
        self._accounts: dict[str, Account] = {}
        self._chosen: dict[str, Choose] = {}
        self._keys: list[str] = []

    def open(self, token: str, run: str = FIRST, choose: Choose = runner_answers.choose) -> None:
        """Take requests under this token from now on, and note them as that run's."""

        def note(kind: str, at_s: float, data: dict[str, Any]) -> None:
            if run == FIRST:
                self._count(kind, at_s, data)
            self._journal.add("meter", kind, at_s=at_s, **({} if run == FIRST else {"run": run}), **data)
            self.heard()

        def chosen(asked: Asked) -> Answer:
            return self._chosen[run](asked)

        self._chosen[run] = choose
        self._accounts[run] = self._meter.open(token, note, chosen)
        self._keys.append(token)

    def answer(self, choose: Choose, run: str = FIRST) -> None:
        """Choose the answers of that run like this from now on."""
        self._chosen[run] = choose

    def _count(self, kind: str, at_s: float, data: dict[str, Any]) -> None:
        if kind == "request":
            self.last_request_s = at_s
            self.main_requests += not data.get("side") and not data.get("refused")
        elif kind == "tokens":
            self.most_tokens = max(self.most_tokens, int(data["total"]))

    def url(self, token: str) -> str:
        """Where the run of that token finds its provider, by TCP."""
        place = next(address.partition(":")[2] for address in self.providers if address.startswith("tcp:"))
        return f"http://{place}/{token}"

    def press(self) -> None:
        """Cancel was pressed: what is held until then is let go."""
        for account in self._accounts.values():
            account.press()

    def open_requests(self) -> list[str]:
        """The requests of the cancelled run that are open at the provider."""
        return self._accounts[FIRST].open_requests if FIRST in self._accounts else []

    def look(self, moment: str) -> None:
        """Note how the cancelled run's book stands."""
        if FIRST in self._accounts:
            self._journal.add("meter", "look", moment=moment, **self._accounts[FIRST].summary())

    def close(self) -> None:
        """Take no more requests; those that are open are cut."""
        for key in self._keys:
            self._meter.shut(key)
