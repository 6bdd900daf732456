"""What a wire format is: how a request is read, and how an answer is written. Values in, values out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_cancelcontract.recorder.meter.pieces import Pieces

NAME_AT_MOST = 200
"""Characters of a name out of a request (a model, a tool) that are kept."""


class BadRequest(ValueError):
    """A request that cannot be answered; the message is for the client, and names no value out of it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that a request offers, with its parameters' names and JSON types."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """All that is taken from a request's body."""

    model: str = ""
    stream: bool = False
    background: bool = False
    offers: tuple[Offer, ...] = ()
    tool_results: int = 0
    wants_usage: bool = True
    """Whether a stream of chat completions is to end with the usage."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that is made."""

    name: str
    arguments: Mapping[str, Any]

    def arguments_json(self) -> str:
        """The arguments as the provider writes them."""
        return json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, ready to be written in any format. ``number`` makes its ids; ``created_s`` is wall time."""

    number: int
    model: str
    created_s: int
    pieces: Pieces
    tokens: int
    call: Call | None = None
    input_tokens: int = 1
    wants_usage: bool = True
    background: bool = False
    is_array: bool = False
    """Gemini's other way to stream, a JSON array, where server-sent events were not asked for."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One format. A stream is the opening, a piece for every token of the text, and the closing, which carries the tool call."""

    name: str
    read: Callable[[Mapping[str, Any]], Request]
    opening: Callable[[Reply], bytes]
    piece: Callable[[Reply, int], bytes]
    closing: Callable[[Reply], bytes]
    whole: Callable[[Reply], bytes]
    failure: Callable[[int, str, float | None], bytes]
    counted: Callable[[int], bytes]
    """The answer to a request that only counts tokens."""


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """A server-sent event with a name."""
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def compact(data: Any) -> bytes:
    """JSON without white space."""
    return json.dumps(data, separators=(",", ":")).encode()


def name(value: object) -> str:
    """A name out of a request, shortened; empty where it is no text."""
    return value[:NAME_AT_MOST] if isinstance(value, str) else ""


def items(value: object) -> Iterable[Mapping[str, Any]]:
    """The objects in a list out of a request; nothing where it is no list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def offer(tool_name: object, schema: object) -> Offer:
    """A tool out of a request, with the JSON schema of its parameters."""
    declared = schema.get("properties") if isinstance(schema, Mapping) else None
    parameters = declared.items() if isinstance(declared, Mapping) else ()
    return Offer(name(tool_name), {name(key): _type(value) for key, value in parameters})


def _type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return name(kind).lower()
