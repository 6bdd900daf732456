"""OpenAI responses: https://platform.openai.com/docs/api-reference/responses, with its stream and its background mode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pytest_cancelcontract.recorder.meter.wires import openai_errors
from pytest_cancelcontract.recorder.meter.wires.wire import Reply, Request, Wire, compact, event, items, name, offer

Status = Literal["queued", "in_progress", "completed", "cancelled"]
OPENING_EVENTS = 4


def read(body: Mapping[str, Any]) -> Request:
    """What is taken from a request; of the tools only functions, for the others run at the provider."""
    tools = [tool for tool in items(body.get("tools")) if tool.get("type") == "function"]
    return Request(
        model=name(body.get("model")),
        stream=body.get("stream") is True,
        background=body.get("background") is True,
        offers=tuple(offer(tool.get("name"), tool.get("parameters")) for tool in tools),
        tool_results=sum(name(item.get("type")).endswith("_call_output") for item in items(body.get("input"))),
    )


def opening(reply: Reply) -> bytes:
    """The response's creation, and the start of its text."""
    response = _response(reply, "in_progress", [])
    parts = [_event(0, "response.created", response=response), _event(1, "response.in_progress", response=response)]
    if len(reply.pieces):
        item = _message(reply, "in_progress") | {"content": []}
        parts.append(_event(2, "response.output_item.added", output_index=0, item=item))
        parts.append(_event(3, "response.content_part.added", part=_part(""), **_place(reply)))
    return b"".join(parts)


def piece(reply: Reply, index: int) -> bytes:
    """One token of the text."""
    place = f'"item_id":"msg_{reply.number}","output_index":0,"content_index":0,"logprobs":[]'
    numbered = f'{{"type":"response.output_text.delta","sequence_number":{OPENING_EVENTS + index},{place},"delta":'
    return f"event: response.output_text.delta\ndata: {numbered}{json.dumps(reply.pieces[index])}}}\n\n".encode()


def closing(reply: Reply) -> bytes:
    """The end of the text, the tool call, and the whole response once more, with its usage."""
    events: list[tuple[str, dict[str, Any]]] = []
    if len(reply.pieces):
        text = reply.pieces.text()
        events += [
            ("response.output_text.done", {"text": text, "logprobs": []} | _place(reply)),
            ("response.content_part.done", {"part": _part(text)} | _place(reply)),
            ("response.output_item.done", {"output_index": 0, "item": _message(reply, "completed")}),
        ]
    if reply.call:
        place = {"item_id": f"fc_{reply.number}", "output_index": 1 if len(reply.pieces) else 0}
        arguments = reply.call.arguments_json()
        done = {"name": reply.call.name, "arguments": arguments} | place
        begun = _call(reply, "in_progress") | {"arguments": ""}
        events += [
            ("response.output_item.added", {"output_index": place["output_index"], "item": begun}),
            ("response.function_call_arguments.delta", {"delta": arguments} | place),
            ("response.function_call_arguments.done", done),
            ("response.output_item.done", {"output_index": place["output_index"], "item": _call(reply, "completed")}),
        ]
    events.append(("response.completed", {"response": _response(reply, "completed", _output(reply))}))
    first = (OPENING_EVENTS + len(reply.pieces)) if len(reply.pieces) else 2
    return b"".join(_event(first + number, kind, **data) for number, (kind, data) in enumerate(events))


def whole(reply: Reply) -> bytes:
    """The response at once."""
    return standing(reply, "completed")


def standing(reply: Reply, status: Status) -> bytes:
    """A response as it stands; what is not completed has no output yet."""
    return compact(_response(reply, status, _output(reply) if status == "completed" else []))


def identifier(reply: Reply) -> str:
    """The name by which it is polled and cancelled."""
    return f"resp_{reply.number}"


def counted(tokens: int) -> bytes:
    """How many tokens a request would have."""
    return compact({"object": "response.input_tokens", "input_tokens": tokens})


def _response(reply: Reply, status: Status, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.tokens,
    }
    return {
        "id": identifier(reply),
        "object": "response",
        "created_at": reply.created_s,
        "status": status,
        "background": reply.background,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": reply.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": reply.background,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if status == "completed" else None,
        "user": None,
    }


def _output(reply: Reply) -> list[dict[str, Any]]:
    return [*([_message(reply, "completed")] if len(reply.pieces) else []), *([_call(reply, "completed")] if reply.call else [])]


def _message(reply: Reply, status: Status) -> dict[str, Any]:
    content = [_part(reply.pieces.text())] if status == "completed" else []
    return {"id": f"msg_{reply.number}", "type": "message", "status": status, "role": "assistant", "content": content}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _place(reply: Reply) -> dict[str, Any]:
    return {"item_id": f"msg_{reply.number}", "output_index": 0, "content_index": 0}


def _call(reply: Reply, status: Status) -> dict[str, Any]:
    assert reply.call is not None
    ids = {"id": f"fc_{reply.number}", "call_id": f"call_{reply.number}"}
    return ids | {"type": "function_call", "status": status, "name": reply.call.name, "arguments": reply.call.arguments_json()}


def _event(number: int, kind: str, **data: Any) -> bytes:
    return event(kind, {"type": kind, "sequence_number": number} | data)


WIRE = Wire("openai-responses", read, opening, piece, closing, whole, openai_errors.failure, counted)
