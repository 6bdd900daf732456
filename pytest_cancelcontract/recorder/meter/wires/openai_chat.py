"""OpenAI chat completions: https://platform.openai.com/docs/api-reference/chat, and its stream of chunks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_cancelcontract.recorder.meter.wires import openai_errors
from pytest_cancelcontract.recorder.meter.wires.wire import Reply, Request, Wire, compact, items, name, offer


def read(body: Mapping[str, Any]) -> Request:
    """What is taken from a request."""
    functions = [tool.get("function") for tool in items(body.get("tools"))]
    options = body.get("stream_options")
    return Request(
        model=name(body.get("model")),
        stream=body.get("stream") is True,
        offers=tuple(offer(one.get("name"), one.get("parameters")) for one in functions if isinstance(one, Mapping)),
        tool_results=sum(message.get("role") == "tool" for message in items(body.get("messages"))),
        wants_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
    )


def opening(reply: Reply) -> bytes:
    """The chunk that says who speaks."""
    return _chunk(reply, {"role": "assistant", "content": "" if len(reply.pieces) else None})


def piece(reply: Reply, index: int) -> bytes:
    """One token of the text."""
    head = (
        f'{{"id":"chatcmpl-{reply.number}","object":"chat.completion.chunk","created":{reply.created_s},"model":{json.dumps(reply.model)}'
    )
    delta = f'"choices":[{{"index":0,"delta":{{"content":{json.dumps(reply.pieces[index])}}},"logprobs":null,"finish_reason":null}}]'
    return f"data: {head},{delta}}}\n\n".encode()


def closing(reply: Reply) -> bytes:
    """The tool call, the reason of the end, the usage if it was asked for, and the mark of the end."""
    parts = []
    if reply.call:
        named = {"name": reply.call.name, "arguments": ""}
        begun = {"index": 0, "id": f"call_{reply.number}", "type": "function", "function": named}
        rest = {"index": 0, "function": {"arguments": reply.call.arguments_json()}}
        parts += [_chunk(reply, {"tool_calls": [begun]}), _chunk(reply, {"tool_calls": [rest]})]
    parts.append(_chunk(reply, {}, _finish_reason(reply)))
    if reply.wants_usage:
        parts.append(_data(_head(reply, "chat.completion.chunk") | {"choices": [], "usage": _usage(reply)}))
    return b"".join(parts) + b"data: [DONE]\n\n"


def whole(reply: Reply) -> bytes:
    """The completion at once."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.pieces.text() if len(reply.pieces) else None, "refusal": None}
    if reply.call:
        function = {"name": reply.call.name, "arguments": reply.call.arguments_json()}
        message["tool_calls"] = [{"id": f"call_{reply.number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
    return compact(_head(reply, "chat.completion") | {"choices": [choice], "usage": _usage(reply)})


def counted(tokens: int) -> bytes:
    """How many tokens a request would have; the format knows no such request, and no route leads here."""
    return compact({"input_tokens": tokens})


def _head(reply: Reply, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{reply.number}", "object": kind, "created": reply.created_s, "model": reply.model}


def _chunk(reply: Reply, delta: Mapping[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _data(_head(reply, "chat.completion.chunk") | {"choices": [choice]})


def _data(data: Mapping[str, Any]) -> bytes:
    return b"data: " + compact(data) + b"\n\n"


def _finish_reason(reply: Reply) -> str:
    return "tool_calls" if reply.call else "stop"


def _usage(reply: Reply) -> dict[str, int]:
    total = reply.input_tokens + reply.tokens
    return {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.tokens, "total_tokens": total}


WIRE = Wire("openai-chat", read, opening, piece, closing, whole, openai_errors.failure, counted)
