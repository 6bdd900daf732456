"""The wire formats as pure functions: what is read out of a request, which call a path means, which tool runs a command."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cancelcontract.recorder.meter.pieces import MadeUp, Words
from pytest_cancelcontract.recorder.meter.routes import Target, route
from pytest_cancelcontract.recorder.meter.tools import call_for
from pytest_cancelcontract.recorder.meter.wires import anthropic, gemini, openai_chat, openai_responses
from pytest_cancelcontract.recorder.meter.wires.wire import BadRequest, Call, Offer, Reply, Request, Wire
from pytest_cancelcontract.recorder.meter.work import Pace

WIRES = [pytest.param(wire, id=wire.name) for wire in (anthropic.WIRE, openai_chat.WIRE, openai_responses.WIRE, gemini.WIRE)]
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
OFFER = (Offer("Bash", {"command": "string"}),)


def reply(**changes: Any) -> Reply:
    """An answer of three words."""
    values: dict[str, Any] = {"number": 4, "model": "m", "created_s": 1, "pieces": Words("one two\nthree"), "tokens": 3} | changes
    return Reply(**values)


def stream(wire: Wire, answer: Reply) -> bytes:
    """All of a streamed answer."""
    return wire.opening(answer) + b"".join(wire.piece(answer, index) for index in range(len(answer.pieces))) + wire.closing(answer)


def events(data: bytes) -> list[Any]:
    """The data of its events, each from JSON; the mark at the end of chat completions is left out."""
    lines = [line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize(
    ("wire", "body", "request_"),
    [
        pytest.param(
            anthropic.WIRE,
            {
                "model": "m",
                "stream": True,
                "tools": [{"name": "Bash", "input_schema": SCHEMA}],
                "messages": [
                    {"role": "user", "content": "text"},
                    {"role": "user", "content": [{"type": "tool_result"}, {"type": "text"}, {"type": "tool_result"}]},
                ],
            },
            Request("m", stream=True, offers=OFFER, tool_results=2),
            id="anthropic",
        ),
        pytest.param(
            openai_chat.WIRE,
            {
                "model": "m",
                "stream": True,
                "stream_options": {"include_usage": True},
                "tools": [{"type": "function", "function": {"name": "Bash", "parameters": SCHEMA}}],
                "messages": [{"role": "user"}, {"role": "tool"}],
            },
            Request("m", stream=True, offers=OFFER, tool_results=1, wants_usage=True),
            id="chat completions",
        ),
        pytest.param(openai_chat.WIRE, {"model": "m"}, Request("m", wants_usage=False), id="chat completions without usage"),
        pytest.param(
            openai_responses.WIRE,
            {
                "model": "m",
                "background": True,
                "tools": [{"type": "function", "name": "Bash", "parameters": SCHEMA}, {"type": "web_search"}],
                "input": [{"type": "message"}, {"type": "function_call_output"}, {"type": "custom_tool_call_output"}],
            },
            Request("m", background=True, offers=OFFER, tool_results=2),
            id="responses",
        ),
        pytest.param(openai_responses.WIRE, {"model": "m", "input": "text"}, Request("m"), id="responses, input is text"),
        pytest.param(
            gemini.WIRE,
            {
                "tools": [{"functionDeclarations": [{"name": "Bash", "parametersJsonSchema": SCHEMA}]}, {"googleSearch": {}}],
                "contents": [{"parts": [{"text": ""}, {"functionResponse": {}}]}],
            },
            Request(offers=OFFER, tool_results=1),
            id="gemini",
        ),
        pytest.param(
            gemini.WIRE,
            {
                "tools": [{"function_declarations": [{"name": "Bash", "parameters": SCHEMA}]}],
                "contents": [{"parts": [{"function_response": {}}]}],
            },
            Request(offers=OFFER, tool_results=1),
            id="gemini in snake case",
        ),
    ],
)
def test_what_matters_is_read_out_of_a_request(wire: Wire, body: dict[str, Any], request_: Request) -> None:
    assert wire.read(body) == request_


ODD = st.recursive(
    st.sampled_from([None, True, 0, -1.5, "", "array", "function"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("model", "stream", "tools", "messages", "content", "input", "contents", "parts", "function", "type", "name"),
                    *("parameters", "input_schema", "properties", "functionDeclarations", "stream_options", "role", "background"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("wire", WIRES)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a loaded machine is slow
@given(body=st.dictionaries(st.sampled_from(["model", "tools", "messages", "input", "contents", "stream_options"]), ODD))
def test_no_json_object_is_too_odd_to_be_read(wire: Wire, body: dict[str, Any]) -> None:
    wire.read(body)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/k/v1/messages", ("generate", "anthropic")),
        ("POST", "/k/messages?beta=true", ("generate", "anthropic")),
        ("POST", "/k/v1/v1/messages", ("generate", "anthropic")),
        ("POST", "/k/v1/messages/count_tokens", ("count", "anthropic")),
        ("POST", "/k/v1/chat/completions", ("generate", "openai-chat")),
        ("POST", "/k/chat/completions", ("generate", "openai-chat")),
        ("POST", "/k/v1/responses", ("generate", "openai-responses")),
        ("POST", "http://provider/k/v1/responses", ("generate", "openai-responses")),
        ("POST", "/k/v1/responses/input_tokens", ("count", "openai-responses")),
        ("GET", "/k/v1/responses/resp_1", ("poll", "openai-responses")),
        ("POST", "/k/responses/resp_1/cancel", ("cancel", "openai-responses")),
        ("GET", "/k/v1/responses/resp_1/cancel", None),
        ("POST", "/k/v1/responses/resp_1", None),
        ("POST", "/k/v1beta/models/g-2:generateContent", ("generate", "gemini")),
        ("POST", "/k/v1beta/models/g-2:streamGenerateContent?alt=sse", ("generate", "gemini")),
        ("POST", "/k/v1beta/models/g-2%3AcountTokens", ("count", "gemini")),
        ("POST", "/k/v1beta/models/g-2:embedContent", None),
        ("HEAD", "/k", ("hello", None)),
        ("GET", "/k/", ("hello", None)),
        ("GET", "/k/v1/models?limit=9", ("models", None)),
        ("GET", "/k/v1/models/m", ("models", None)),
        ("GET", "/k/v1/messages", None),
        ("POST", "/k/version/messages", None),
        ("POST", "/k/v1/embeddings", None),
        ("DELETE", "/k/v1/responses/resp_1", None),
        ("POST", "//[", None),
        ("POST", "/k//v1/messages", ("generate", "anthropic")),
        ("POST", "//k/v1//messages", ("generate", "anthropic")),
        ("GET", "/k//v1/responses/resp_1", ("poll", "openai-responses")),
        ("POST", "/k/openai/deployments/gpt-5/chat/completions?api-version=1", ("generate", "openai-chat")),
        ("POST", "/k/openai/v1/responses", ("generate", "openai-responses")),
        ("POST", "/k/api/v1/chat/completions", ("generate", "openai-chat")),
        ("POST", "/k/v1beta/openai/chat/completions", ("generate", "openai-chat")),
        ("POST", "/k/v1/threads/t/messages", None),
        ("POST", "/k/api/event_logging/batch", None),
        ("GET", "/k/api/hello", None),
    ],
)
def test_a_path_means_one_call_or_none(method: str, path: str, expected: tuple[str, str | None] | None) -> None:
    found = route(method, Target.parse(path.encode()))
    assert (found and (found.act, found.wire.name if found.wire else None)) == expected


def test_gemini_says_model_and_stream_in_the_path() -> None:
    found = route("POST", Target.parse(b"/k/v1beta/models/g-2:streamGenerateContent?key=sk&alt=sse"))
    assert found is not None
    assert (found.model, found.stream, found.is_array) == ("g-2", True, False)
    without = route("POST", Target.parse(b"/k/v1beta/models/g-2:streamGenerateContent"))
    assert without is not None and without.is_array


@pytest.mark.parametrize(
    ("offers", "tool", "call"),
    [
        pytest.param(
            [Offer("Read", {"path": "string"}), Offer("Bash", {"command": "string", "description": "string", "timeout": "number"})],
            None,
            Call("Bash", {"command": "ls", "description": "Run the command", "timeout": 600_000}),
            id="claude-code",
        ),
        pytest.param(
            [Offer("exec_command", {"cmd": "string", "yield_time_ms": "number"}), Offer("write_stdin", {})],
            None,
            Call("exec_command", {"cmd": "ls", "yield_time_ms": 30_000}),
            id="codex",
        ),
        pytest.param([Offer("exec_command")], None, Call("exec_command", {"cmd": "ls"}), id="codex without a schema"),
        pytest.param([Offer("shell", {"command": "array"})], None, Call("shell", {"command": ["bash", "-lc", "ls"]}), id="codex, older"),
        pytest.param(
            [Offer("run_shell_command", {"command": "string", "is_background": "boolean"})],
            None,
            Call("run_shell_command", {"command": "ls", "is_background": False}),
            id="gemini-cli",
        ),
        pytest.param([Offer("bash", {"command": "string"})], None, Call("bash", {"command": "ls"}), id="opencode"),
        pytest.param([Offer("look", {}), Offer("do", {"cmd": "string"})], None, Call("do", {"cmd": "ls"}), id="unknown, by its parameter"),
        pytest.param([Offer("Bash"), Offer("other", {"command": "string"})], "other", Call("other", {"command": "ls"}), id="named"),
    ],
)
def test_a_command_is_run_in_the_way_of_the_clients_tools(offers: list[Offer], tool: str | None, call: Call) -> None:
    assert call_for("ls", tool, offers) == call


@pytest.mark.parametrize(
    ("tool", "words"),
    [pytest.param(None, "no tool of the request does.*look", id="none"), pytest.param("Bash", "'Bash'.*look", id="named")],
)
def test_a_request_whose_tools_run_nothing_is_refused_with_their_names(tool: str | None, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        call_for("ls", tool, [Offer("look", {"path": "string"})])


def test_responses_number_their_events_without_a_gap() -> None:
    for answer in (reply(), reply(pieces=Words("")), reply(call=Call("Bash", {})), reply(pieces=Words(""), call=Call("Bash", {}))):
        numbers = [one["sequence_number"] for one in events(stream(openai_responses.WIRE, answer))]
        assert numbers == list(range(len(numbers)))


def test_an_anthropic_block_is_started_and_stopped_under_its_number() -> None:
    found = events(stream(anthropic.WIRE, reply(call=Call("Bash", {"command": "ls"}))))
    kinds = [(one["type"], one.get("index")) for one in found if one["type"].startswith("content_block")]
    delta = ("content_block_delta", 0)
    assert kinds == [
        ("content_block_start", 0),
        *[delta] * 3,
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
    ]
    assert [found[0]["type"], found[-2]["type"], found[-1]["type"]] == ["message_start", "message_delta", "message_stop"]


@pytest.mark.parametrize("answer", [reply(), reply(pieces=Words("")), reply(pieces=Words(""), call=Call("Bash", {}))])
def test_gemini_streams_an_array_where_events_are_not_asked_for(answer: Reply) -> None:
    chunks = json.loads(stream(gemini.WIRE, dataclasses.replace(answer, is_array=True)))
    assert len(chunks) == len(answer.pieces) + 1
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("text", ["", "one", " two  words\n", "line\n\n  and quotes \" ' \\ é 😀", "  "])
def test_the_tokens_of_a_text_are_the_text(text: str) -> None:
    words = Words(text)
    assert "".join(words[index] for index in range(len(words))) == words.text() == text


@pytest.mark.parametrize("count", [0, 1, 12, 13, 14, 1000])
def test_the_tokens_of_made_up_words_are_their_text(count: int) -> None:
    words = MadeUp(count)
    assert "".join(words[index] for index in range(len(words))) == words.text()


@pytest.mark.parametrize(
    ("at_s", "made"),
    [
        pytest.param(9.0, 1, id="a clock that is read before the start still has the first"),
        pytest.param(10.0, 1, id="the first at once"),
        pytest.param(10.0499, 1, id="not before its time"),
        pytest.param(10.05, 2, id="exactly on time"),
        pytest.param(10.1, 3, id="and so on"),
        pytest.param(99.0, 5, id="never more than there are"),
    ],
)
def test_tokens_are_made_by_the_clock(at_s: float, made: int) -> None:
    assert Pace(10.0, 5, 20.0).made(at_s) == made


def test_every_token_is_made_at_the_moment_it_is_due() -> None:
    """Also where the arithmetic of floats puts the moment a trifle early."""
    for per_s in (3.0, 7.0, 20.0, 200.0, 333.3):
        pace = Pace(33448.245, 10_000, per_s)
        assert all(pace.made(pace.due_s(index)) == index + 1 for index in range(9_999))


def test_made_up_words_are_no_loop() -> None:
    """Agents watch for that: no fifty characters of them come again."""
    text = MadeUp(400).text()
    pieces = [text[at : at + 50] for at in range(len(text) - 50)]
    assert len(set(pieces)) == len(pieces)
