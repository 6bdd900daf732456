"""What a team writes so that its wrapper can be drilled: two methods, and optional ones that open more of the contract.

Each optional method is a Protocol of its own, so that a class with only the first two type-checks. Every method may be
``def`` or ``async def``. Nothing here calls an adapter; :mod:`pytest_cancelcontract.adapters.driver` does.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Literal, Protocol, runtime_checkable

from pytest_cancelcontract.run import Run


class Outcome(StrEnum):
    """What a wrapper, or an engine's record, says of a run."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FAILED = "failed"
    SUCCEEDED = "succeeded"

    @property
    def is_terminal(self) -> bool:
        """Whether it says that the run is over."""
        return self in {Outcome.CANCELLED, Outcome.FAILED, Outcome.SUCCEEDED}


class BadOutcome(ValueError):
    """An adapter answered with something that is no outcome; the message names it and what is allowed."""


def read_outcome(value: object, method: str) -> Outcome:
    """Turn an adapter's answer (an :class:`Outcome` or its word) into an outcome.

    Raises:
        BadOutcome: it is none of the five; ``None`` and enumerations of the team's own are refused too.
    """
    if isinstance(value, str):
        try:
            return Outcome(value)
        except ValueError:
            pass
    raise BadOutcome(f"{method} must answer with one of {', '.join(Outcome)}, got {value!r}")


def outcome_of_value(value: object) -> Outcome:
    """What a wrapper that has come back with this value says of its run: its own word for it, where it has one, or that it succeeded."""
    try:
        return read_outcome(value, "the wrapper")
    except BadOutcome:
        return Outcome.SUCCEEDED


def name_of(function: object, otherwise: str) -> str:
    """A function's own name, for reports."""
    own = getattr(function, "__name__", type(function).__name__)
    return otherwise if own == "<lambda>" else own


class Adapter(Protocol):
    """The seam: how to start one run of the wrapper, and how to press its cancel button."""

    def start(self, run: Run, /) -> Any:
        """Start the wrapper on ``run`` and return, while it runs, any handle (or an awaitable of one)."""

    def cancel(self, handle: Any, /) -> Any:
        """Cancel that run by the way that an operator would use."""


@runtime_checkable
class HasWait(Protocol):
    """An adapter that can block until the outcome of a run is terminal."""

    def wait(self, handle: Any, /) -> Any:
        """The terminal :class:`Outcome`, once there is one."""


@runtime_checkable
class HasOutcome(Protocol):
    """An adapter that can tell the present outcome of a run; it is asked again and again."""

    def outcome(self, handle: Any, /) -> Any:
        """The :class:`Outcome` at this moment."""


@runtime_checkable
class HasDisrupt(Protocol):
    """An adapter that can kill or freeze the wrapper itself, not its platform."""

    def disrupt(self, handle: Any, how: Literal["kill", "freeze"], /) -> Any:
        """Kill the wrapper's process, or stop it."""


@runtime_checkable
class HasRecover(Protocol):
    """An adapter that can thaw what it froze."""

    def recover(self, handle: Any, /) -> Any:
        """Let a frozen wrapper go on."""


@runtime_checkable
class HasEngine(Protocol):
    """An adapter that can change how the engine looks to the wrapper."""

    def engine(self, handle: Any, state: Literal["refuse", "silent", "up"], /) -> Any:
        """Let the engine refuse, not answer at all, or work again."""


@runtime_checkable
class HasHeartbeats(Protocol):
    """An adapter that knows which heartbeats the engine received."""

    def heartbeats(self, handle: Any, /) -> Any:
        """The moments of the heartbeats, in seconds of ``time.monotonic()``."""


@runtime_checkable
class HasClose(Protocol):
    """An adapter that holds something beyond its drills."""

    def close(self) -> Any:
        """Let go of it; called once, after the last drill."""


@runtime_checkable
class HasCapabilities(Protocol):
    """An adapter whose abilities depend on how it was made, so that its methods do not tell them."""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """As in a history's header: ``wait``, ``outcome``, ``exit`` …"""


CALL_ENDS_AT: ContextVar[float | None] = ContextVar("cancelcontract_call_ends_at", default=None)
"""In a call into an adapter: when (``time.monotonic()``) its caller stops waiting for it."""


ACTED: ContextVar[list[float] | None] = ContextVar("cancelcontract_acted", default=None)
"""In a call into the adapter: takes the moments (``time.monotonic()``) at which it really did something to the world."""


def note_act(at_s: float) -> None:
    """Note when a signal was sent, or a command was begun: on a busy machine that is later than the call into the adapter."""
    acts = ACTED.get()
    if acts is not None:
        acts.append(at_s)


def call_left_s(otherwise: float) -> float:
    """Seconds that the present call into an adapter may still take; ``otherwise`` outside of one."""
    ends_at = CALL_ENDS_AT.get()
    return otherwise if ends_at is None else max(0.0, ends_at - time.monotonic())
