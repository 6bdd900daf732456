"""Gemini generateContent: https://ai.google.dev/api/generate-content, streamed as server-sent events or as a JSON array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cancelcontract.recorder.meter.wires.wire import Reply, Request, Wire, compact, items, offer

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def read(body: Mapping[str, Any]) -> Request:
    """What is taken from a request; its model, and whether it is streamed, stand in the path."""
    declared = [one for tool in items(body.get("tools")) for key in _both("functionDeclarations") for one in items(tool.get(key))]
    parts = [part for content in items(body.get("contents")) for part in items(content.get("parts"))]
    return Request(
        offers=tuple(offer(one.get("name"), _schema(one)) for one in declared),
        tool_results=sum(any(key in part for key in _both("functionResponse")) for part in parts),
    )


def opening(reply: Reply) -> bytes:
    """Nothing but the array's bracket: every chunk stands for itself."""
    return b"[" if reply.is_array else b""


def piece(reply: Reply, index: int) -> bytes:
    """One token of the text."""
    return _chunk(reply, _response(reply, [{"text": reply.pieces[index]}], index + 1), is_first=index == 0)


def closing(reply: Reply) -> bytes:
    """The tool call or nothing, with the reason of the end and the usage."""
    last = _response(reply, [_call(reply) if reply.call else {"text": ""}], reply.tokens, "STOP")
    return _chunk(reply, last, is_first=not len(reply.pieces)) + (b"]" if reply.is_array else b"")


def whole(reply: Reply) -> bytes:
    """The response at once."""
    parts: list[dict[str, Any]] = [{"text": reply.pieces.text()}] if len(reply.pieces) else []
    return compact(_response(reply, [*parts, *([_call(reply)] if reply.call else [])], reply.tokens, "STOP"))


def failure(status: int, message: str, retry_after_s: float | None) -> bytes:
    """An error's body, with the time to wait where there is one."""
    error: dict[str, Any] = {"code": status, "message": message, "status": STATUSES.get(status, "UNKNOWN")}
    if retry_after_s is not None:
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_after_s:g}s"}]
    return compact({"error": error})


def counted(tokens: int) -> bytes:
    """How many tokens a request would have."""
    return compact({"totalTokens": tokens})


def _response(reply: Reply, parts: list[dict[str, Any]], tokens: int, finish_reason: str = "") -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish_reason:
        candidate["finishReason"] = finish_reason
    total = reply.input_tokens + tokens
    usage = {"promptTokenCount": reply.input_tokens, "candidatesTokenCount": tokens, "totalTokenCount": total}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": reply.model, "responseId": f"response-{reply.number}"}


def _call(reply: Reply) -> dict[str, Any]:
    assert reply.call is not None
    return {"functionCall": {"name": reply.call.name, "args": dict(reply.call.arguments)}}


def _chunk(reply: Reply, data: Mapping[str, Any], *, is_first: bool) -> bytes:
    if reply.is_array:
        return (b"" if is_first else b",\r\n") + compact(data)
    return b"data: " + compact(data) + b"\r\n\r\n"


def _schema(declared: Mapping[str, Any]) -> Any:
    return next((declared[key] for key in ("parameters", *_both("parametersJsonSchema")) if key in declared), None)


def _both(name: str) -> tuple[str, str]:
    """A field's two spellings, both of which the service takes."""
    return name, "".join(f"_{one.lower()}" if one.isupper() else one for one in name)


WIRE = Wire("gemini", read, opening, piece, closing, whole, failure, counted)
