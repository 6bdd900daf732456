"""Anthropic messages: https://docs.anthropic.com/en/api/messages, and its stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_cancelcontract.recorder.meter.wires.wire import Reply, Request, Wire, compact, event, items, name, offer

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def read(body: Mapping[str, Any]) -> Request:
    """What is taken from a request."""
    contents = [message.get("content") for message in items(body.get("messages"))]
    return Request(
        model=name(body.get("model")),
        stream=body.get("stream") is True,
        offers=tuple(offer(tool.get("name"), tool.get("input_schema")) for tool in items(body.get("tools"))),
        tool_results=sum(block.get("type") == "tool_result" for content in contents for block in items(content)),
    )


def opening(reply: Reply) -> bytes:
    """The start of the message, and of its text."""
    message = _message(reply, [], None, 1)
    start = event("message_start", {"type": "message_start", "message": message})
    return start + (_block_start(0, {"type": "text", "text": ""}) if len(reply.pieces) else b"") + event("ping", {"type": "ping"})


def piece(reply: Reply, index: int) -> bytes:
    """One token of the text."""
    delta = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":'
    return f"event: content_block_delta\ndata: {delta}{json.dumps(reply.pieces[index])}}}}}\n\n".encode()


def closing(reply: Reply) -> bytes:
    """The end of the text, the tool call, the usage, and the end of the message."""
    number = 1 if len(reply.pieces) else 0
    parts = [_block_stop(0)] if number else []
    if reply.call:
        parts.append(_block_start(number, {"type": "tool_use", "id": f"toolu_{reply.number}", "name": reply.call.name, "input": {}}))
        delta = {"type": "input_json_delta", "partial_json": reply.call.arguments_json()}
        parts += [event("content_block_delta", {"type": "content_block_delta", "index": number, "delta": delta}), _block_stop(number)]
    end = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    parts.append(event("message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": reply.tokens}}))
    return b"".join(parts) + event("message_stop", {"type": "message_stop"})


def whole(reply: Reply) -> bytes:
    """The message at once."""
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.pieces.text()}] if len(reply.pieces) else []
    if reply.call:
        call = {"type": "tool_use", "id": f"toolu_{reply.number}", "name": reply.call.name, "input": dict(reply.call.arguments)}
        content.append(call)
    return compact(_message(reply, content, _stop_reason(reply), reply.tokens))


def failure(status: int, message: str, _retry_after_s: float | None) -> bytes:
    """An error's body."""
    return compact({"type": "error", "error": {"type": ERRORS.get(status, "api_error"), "message": message}})


def counted(tokens: int) -> bytes:
    """How many tokens a request would have."""
    return compact({"input_tokens": tokens})


def _message(reply: Reply, content: list[dict[str, Any]], stop_reason: str | None, output_tokens: int) -> dict[str, Any]:
    usage = {"input_tokens": reply.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "id": f"msg_{reply.number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": output_tokens},
    }


def _stop_reason(reply: Reply) -> str:
    return "tool_use" if reply.call else "end_turn"


def _block_start(index: int, block: Mapping[str, Any]) -> bytes:
    return event("content_block_start", {"type": "content_block_start", "index": index, "content_block": block})


def _block_stop(index: int) -> bytes:
    return event("content_block_stop", {"type": "content_block_stop", "index": index})


WIRE = Wire("anthropic", read, opening, piece, closing, whole, failure, counted)
