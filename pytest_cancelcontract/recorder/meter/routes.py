"""Which of the providers' calls a path means, and whether one that is not answered here is one that costs.

What stands in front (``/v1``, ``/v1beta``, ``/api``, ``/openai/deployments/name``) may be missing, or stand there twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

from pytest_cancelcontract.recorder.meter.wires import anthropic, gemini, openai_chat, openai_responses
from pytest_cancelcontract.recorder.meter.wires.wire import NAME_AT_MOST, Wire

Act = Literal["generate", "count", "poll", "cancel", "models", "hello"]
_SLASHES = re.compile("/{2,}")


@dataclass(frozen=True, slots=True)
class Route:
    """What is asked for. ``model`` and ``stream`` where the path holds them; ``identifier`` of what is polled or cancelled."""

    act: Act
    wire: Wire | None = None
    model: str | None = None
    stream: bool | None = None
    identifier: str = ""
    is_array: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """A request's target in parts: the account's key, the path behind it, and of the query its fields' names and no values."""

    key: str
    path: str
    is_sse: bool = False
    fields: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, target: bytes) -> Target:
        """Of any target; the absolute form (a proxy's) too."""
        text = target.decode("ascii", "replace")
        try:
            parts = urlsplit("/" + text.lstrip("/") if text.startswith("/") else text)
            query = parse_qs(parts.query)
        except ValueError:  # a bracket in the host's place, or too many fields
            return cls("", "/")
        key, _, rest = parts.path.lstrip("/").partition("/")
        # A base URL that ends with a slash makes two of it.
        return cls(key, _SLASHES.sub("/", f"/{rest}"), query.get("alt") == ["sse"], frozenset(query))

    def shown(self) -> str:
        """The path for a note: the key is left out, and so is the query, in which some clients send theirs."""
        return self.path[:NAME_AT_MOST]


_FRONT = re.compile(r"^(?:/(?:v\d[a-z0-9]*|api|openai|deployments/[^/]+))+(?=/|$)")
_VERSION = re.compile(r"^(?:/(?:api|openai))*/v\d[a-z0-9]*(?=/|$)")
_COSTS = re.compile(
    r"/(?:chat|completions?|generate(?:_stream)?|responses(?:/compact)?|messages|realtime(?:/\w+)*)$"
    r"|/(?:embed(?:dings?)?|moderations|batches|rerank)$"
    r"|/(?:images|audio|videos)(?:/\w+)?$"
    r"|/(?:converse(?:-stream)?|invoke(?:-with-response-stream)?)$"
    r"|:\w*(?:generate|embed|predict)\w*$",
    re.IGNORECASE,
)
"""How the calls end that are paid for, whatever stands before that."""
_TALKS = re.compile(r"/(?:responses|realtime)$|BidiGenerateContent\w*$")
"""Those that are made over a websocket."""
_HOUSEKEEPING = re.compile(
    r"/(?:events?|event_logging|telemetry|analytics(?:-events)?|metrics|traces|logs|rgstr)(?:(?:/v\d+)?/batch)?$"
    r"|/(?:count_tokens|input_tokens|cancel|oauth/token|mcp|initialize|files)$"
    r"|:(?:countTokens|computeTokens|cancel)$"
)
"""How those end that are not: telemetry, counts, a cancel, a client's token, its set-up, its files and its tools."""
_POSTS: dict[str, Route] = {
    "/messages": Route("generate", anthropic.WIRE),
    "/messages/count_tokens": Route("count", anthropic.WIRE),
    "/chat/completions": Route("generate", openai_chat.WIRE),
    "/responses": Route("generate", openai_responses.WIRE),
    "/responses/input_tokens": Route("count", openai_responses.WIRE),
}
_RESPONSE = re.compile(r"^/responses/([\w-]+)(/cancel)?$")
_GEMINI = re.compile(r"^/(?:models/)?([^:]+):(generateContent|streamGenerateContent|countTokens)$")
_MODELS = re.compile(r"^/models(?:/.+)?$")


def route(method: str, target: Target) -> Route | None:
    """What this asks for, or ``None``: it is none of the providers' calls that are answered here."""
    path = _FRONT.sub("", target.path) or "/"
    if method == "HEAD" or (method == "GET" and path == "/"):
        return Route("hello")
    if method == "POST":
        return _POSTS.get(path.rstrip("/")) or _of_response(path, "cancel") or _of_gemini(path, target)
    if method == "GET":
        return _of_response(path, "poll") or (Route("models") if _MODELS.match(path) else None)
    return None


def is_aside(method: str, target: Target, found: Route | None, *, is_upgrade: bool) -> bool:
    """Whether a request is the client's housekeeping. A call that is not answered here may well be one that costs: embeddings, pictures.

    Of those it is none whose path ends like one that is paid for, and none below a version unless it is known to be housekeeping.
    """
    if found is not None:
        return found.act != "generate"
    path = unquote(target.path).rstrip("/")
    if method != "POST":
        return not (is_upgrade and _TALKS.search(path))
    if _COSTS.search(path):
        return False
    return bool(_HOUSEKEEPING.search(path)) or not _VERSION.match(path)


def _of_response(path: str, act: Literal["poll", "cancel"]) -> Route | None:
    found = _RESPONSE.match(path)
    if found is None or bool(found[2]) != (act == "cancel"):
        return None
    return Route(act, openai_responses.WIRE, identifier=found[1])


def _of_gemini(path: str, target: Target) -> Route | None:
    found = _GEMINI.match(unquote(path))
    if found is None:
        return None
    is_stream = found[2] == "streamGenerateContent"
    act: Act = "count" if found[2] == "countTokens" else "generate"
    return Route(act, gemini.WIRE, found[1][:NAME_AT_MOST], is_stream, is_array=is_stream and not target.is_sse)
