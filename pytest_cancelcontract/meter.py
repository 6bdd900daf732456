"""A provider for tests: answers as a script says, in the wire formats of Anthropic, OpenAI and Gemini, and counts what it is asked.

It lives in the recorder, so it goes on counting whatever happens to the test's own process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cancelcontract.answers import Answer, Background, Failure, HeldUntilPressed, Script, Stream, Text, ToolCall
from pytest_cancelcontract.recorder.client import Recorder

__all__ = [
    "Answer",
    "Background",
    "Failure",
    "HeldUntilPressed",
    "Meter",
    "MeterRequest",
    "NotReached",
    "Script",
    "Stream",
    "Text",
    "ToolCall",
]

WITHIN_S = 30.0
DEFAULT = (Text(),)


class NotReached(AssertionError):
    """What was waited for did not come; the message gives the book as it stood."""


@dataclass(frozen=True, slots=True)
class MeterRequest:
    """One request as the provider saw it, its times on the monotonic clock.

    ``ended_s`` is None while it is open; ``ending`` is ``""`` then, and else ``ended``, ``disconnected`` or ``cancelled``. What is
    ``is_side`` is the client's own housekeeping (token counts, polls, titles), which takes nothing from the script.
    """

    id: str
    wire: str
    path: str
    model: str
    is_streamed: bool
    is_background: bool
    is_side: bool
    began_s: float
    ended_s: float | None
    ending: str
    tokens: int
    status: int | None


class Meter:
    """The provider of one test, as the fixture ``cancel_meter`` gives it.

    Example::

        cancel_meter.script(ToolCall("sleep 60"), Stream(tokens_per_s=20))
        job = queue.enqueue(env={"ANTHROPIC_BASE_URL": cancel_meter.url})
        cancel_meter.until(requests=1)
        queue.cancel(job)
    """

    def __init__(self, recorder: Recorder, script: Sequence[Answer] = DEFAULT) -> None:
        self._recorder = recorder
        opened = recorder.ask("meter-open", script=Script(tuple(script)).as_list())
        self._key: str = opened["key"]
        self.url: str = opened["url"]
        """For Anthropic's and Google's clients; those of OpenAI take :attr:`openai_url`. Any key is accepted."""

    @property
    def openai_url(self) -> str:
        """The base URL for clients that expect the version in it."""
        return f"{self.url}/v1"

    def script(self, *answers: Answer) -> None:
        """Answer the next requests so, in order; the last answer repeats.

        Raises:
            ValueError: there is no answer, or one of them is none.
        """
        self._recorder.ask("meter-write", key=self._key, script=Script(answers).as_list())

    def press(self) -> None:
        """Say that cancel was pressed: what is held until then is let go."""
        self._recorder.ask("meter-press", key=self._key)

    def until(self, *, within_s: float = WITHIN_S, **least: int) -> None:
        """Wait until these totals are reached: ``requests``, ``tokens``, ``open``, ``disconnected``.

        Raises:
            NotReached: they were not, within that many seconds.
            ValueError: there is no such total.
        """
        __tracebackhide__ = True  # what did not come stands in the caller's line
        if unknown := sorted(least.keys() - {"requests", "tokens", "open", "disconnected"}):
            raise ValueError(f"the meter counts requests, tokens, open and disconnected, not {', '.join(unknown)}")
        book = self._recorder.ask("meter-until", waits_s=within_s, key=self._key, least=least, at_most_s=within_s)
        if not book["reached"]:
            told = ", ".join(f"{name} {value}" for name, value in least.items())
            have = ", ".join(f"{name} {len(book[name]) if name == 'open' else book[name]}" for name in least)
            raise NotReached(f"the meter did not see {told} within {within_s:g} s; it has {have}")

    @property
    def requests(self) -> tuple[MeterRequest, ...]:
        """All of them, in the order in which they began."""
        return tuple(_request(one) for one in self._book()["all"])

    @property
    def tokens(self) -> int:
        """How many tokens were produced by now."""
        return int(self._book()["tokens"])

    @property
    def open(self) -> tuple[MeterRequest, ...]:
        """The requests that are open now."""
        return tuple(one for one in self.requests if one.ended_s is None)

    def close(self) -> None:
        """Take no more requests, and cut those that are open."""
        self._recorder.ask("meter-close", key=self._key)

    def _book(self) -> dict[str, Any]:
        book: dict[str, Any] = self._recorder.ask("meter-until", key=self._key, least={}, at_most_s=0.0)
        return book


def _request(row: Mapping[str, Any]) -> MeterRequest:
    return MeterRequest(
        id=row["request"],
        wire=row["wire"],
        path=row["path"],
        model=row["model"],
        is_streamed=row["stream"],
        is_background=row["background"],
        is_side=row["side"],
        began_s=row["began_s"],
        ended_s=row["ended_s"],
        ending=row["ending"],
        tokens=row["tokens"],
        status=row.get("status"),
    )
