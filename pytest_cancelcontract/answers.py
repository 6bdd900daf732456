"""What a scripted provider can answer, and what it tells the script about a request. Plain data, JSON-shaped both ways.

Shared by the recorder, which answers, and by the tests, which write the script; knows neither of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeAlias

TOKENS_AT_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of a request when its answer is chosen; its messages, keys and headers are not part of it.

    ``wire`` is ``"anthropic"``, ``"openai-chat"``, ``"openai-responses"`` or ``"gemini"``. ``tool_results`` counts the results
    of tool calls among its messages. ``previous`` is the number of requests before this one which took an answer from the script; token
    counts, polls, titles and what was refused take none, and a script is not asked about them.
    """

    wire: str
    model: str
    stream: bool = False
    background: bool = False
    offers_tools: tuple[str, ...] = ()
    tool_results: int = 0
    side: bool = False
    previous: int = 0


class _Data:
    """As a dictionary and back; ``kind`` says which answer it is."""

    __slots__ = ()
    kind: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; :func:`from_dict` reads them back."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]  # every subclass is a dataclass
        return {"answer": self.kind} | {name: value.as_dict() if isinstance(value, _Data) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Text(_Data):
    """This text, whole or (``tokens_per_s``) at a pace. Every word of it counts as a token."""

    text: str = "All of it is done."
    tokens_per_s: float | None = None
    kind: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        _is_text("Text.text", self.text)
        if self.tokens_per_s is not None:
            _is_rate("Text.tokens_per_s", self.tokens_per_s)


@dataclass(frozen=True, slots=True)
class Stream(_Data):
    """So many made-up words at this pace, the first one at once.

    Where the client did not ask for a stream, nothing is sent until all of them were produced.
    """

    tokens: int = 2000
    tokens_per_s: float = 20.0
    kind: ClassVar[str] = "stream"

    def __post_init__(self) -> None:
        _is_count("Stream.tokens", self.tokens)
        _is_rate("Stream.tokens_per_s", self.tokens_per_s)


@dataclass(frozen=True, slots=True)
class ToolCall(_Data):
    """A call of the tool that runs a shell command, after an optional ``text``.

    ``tool`` names one of the tools that the request offers; without it the one is taken that runs commands, with arguments as it
    declares them. A request that offers no tools at all is answered with a word, and takes nothing from the script.
    """

    command: str
    tool: str | None = None
    text: str = ""
    kind: ClassVar[str] = "tool-call"

    def __post_init__(self) -> None:
        _is_text("ToolCall.command", self.command)
        _is_text("ToolCall.text", self.text)
        if self.tool is not None:
            _is_text("ToolCall.tool", self.tool)


@dataclass(frozen=True, slots=True)
class Failure(_Data):
    """An HTTP error in the provider's own form; ``retry_after_s`` says when to try again (``None``: it does not say)."""

    status: int = 429
    retry_after_s: float | None = 1.0
    message: str = "The scripted provider refuses this request, as it was told to."
    kind: ClassVar[str] = "failure"

    def __post_init__(self) -> None:
        if isinstance(self.status, bool) or not isinstance(self.status, int) or not 400 <= self.status <= 599:
            raise ValueError(f"Failure.status must be an HTTP status from 400 to 599, got {self.status!r}")
        if self.retry_after_s is not None and not (_is_number(self.retry_after_s) and self.retry_after_s >= 0):
            raise ValueError(f"Failure.retry_after_s must be a finite number of seconds from 0, or None, got {self.retry_after_s!r}")
        _is_text("Failure.message", self.message)


@dataclass(frozen=True, slots=True)
class Background(_Data):
    """Work that goes on without a connection: an OpenAI response with ``background`` true. Any other request is refused with 400."""

    tokens: int = 2000
    tokens_per_s: float = 20.0
    kind: ClassVar[str] = "background"

    def __post_init__(self) -> None:
        _is_count("Background.tokens", self.tokens)
        _is_rate("Background.tokens_per_s", self.tokens_per_s)


@dataclass(frozen=True, slots=True)
class HeldUntilPressed(_Data):
    """Nothing at all, not even headers, until cancel was pressed; then the answer ``then``."""

    then: Text | Stream | ToolCall | Failure | Background = field(default_factory=Text)
    kind: ClassVar[str] = "held-until-pressed"

    def __post_init__(self) -> None:
        if not isinstance(self.then, _Data) or isinstance(self.then, HeldUntilPressed):
            raise ValueError(f"HeldUntilPressed.then must be an answer that is not held itself, got {self.then!r}")


Answer: TypeAlias = Text | Stream | ToolCall | Failure | HeldUntilPressed | Background
KINDS: Mapping[str, type[Answer]] = {one.kind: one for one in (Text, Stream, ToolCall, Failure, HeldUntilPressed, Background)}


@dataclass(frozen=True, slots=True)
class Script:
    """Answers in order: the n-th main request gets the n-th, and the last one repeats."""

    answers: tuple[Answer, ...]

    def __post_init__(self) -> None:
        if not self.answers:
            raise ValueError("a script must have at least one answer")
        for one in self.answers:
            if not isinstance(one, _Data):
                raise ValueError(f"a script must be made of answers, got {one!r}")

    def __call__(self, asked: Asked) -> Answer:
        """The answer to this request."""
        return self.answers[min(asked.previous, len(self.answers) - 1)]

    def as_list(self) -> list[dict[str, Any]]:
        """Plain values, for JSON; :meth:`from_list` reads them back."""
        return [one.as_dict() for one in self.answers]

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Script:
        """Read a script back.

        Raises:
            ValueError: it is none.
        """
        return cls(tuple(from_dict(one) for one in values))


def from_dict(values: Any) -> Answer:
    """Read an answer back from :meth:`as_dict`.

    Raises:
        ValueError: an unknown ``answer``, unknown or missing fields, or a value that is not allowed.
    """
    kind = values.get("answer") if isinstance(values, Mapping) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"an answer must be a mapping whose 'answer' is one of {', '.join(KINDS)}, got {values!r}")
    answer = KINDS[kind]
    given = {name: value for name, value in values.items() if name != "answer"}
    allowed = [one.name for one in fields(answer)]
    if unknown := sorted(given.keys() - set(allowed)):
        raise ValueError(f"the answer {answer.kind} has no {', '.join(map(repr, unknown))}; it has {', '.join(allowed)}")
    if "then" in given:
        given["then"] = from_dict(given["then"])
    try:
        return answer(**given)
    except TypeError as error:
        raise ValueError(f"the answer {answer.kind} is not complete: {error}") from None


def _is_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, got {value!r}")


def _is_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= TOKENS_AT_MOST:
        raise ValueError(f"{name} must be a whole number from 1 to {TOKENS_AT_MOST}, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_rate(name: str, value: float) -> None:
    if not _is_number(value) or value <= 0:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")
