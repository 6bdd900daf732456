"""The vendors' own libraries, with nothing changed but the base URL, understand what the meter says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_cancelcontract.answers import Background, Failure, HeldUntilPressed, Stream, Text, ToolCall
from tests.meter.provider import Provider, Run

WHY = "the vendors' libraries are not installed: pip install anthropic openai google-genai"
anthropic = pytest.importorskip("anthropic", reason=WHY)
openai = pytest.importorskip("openai", reason=WHY)
genai = pytest.importorskip("google.genai", reason=WHY)

KEY = "sk-meter-test-key"
PROMPT = "Say something."
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}, "description": {"type": "string"}}, "required": ["command"]}
COMMAND = {"command": "sleep 5; echo 'é'", "description": "Run the command"}
CALL = ToolCall(COMMAND["command"], text="It is run now. ")
WORDS = 'Words, with é and "quotes"\nand lines.'
ENDLESS = Stream(1_000_000, 50.0)
MESSAGES = [{"role": "user", "content": PROMPT}]


@pytest.fixture(params=["", "/v1"], ids=["bare base", "base with v1"])
def base(request: pytest.FixtureRequest) -> str:
    """What stands behind the key in the base URL."""
    tail: str = request.param
    return tail


@pytest.fixture
def claude() -> Iterator[Callable[..., Any]]:
    """Anthropic's client for a run; retries must be asked for."""
    made: list[Any] = []

    def go(run: Run, base: str = "", retries: int = 0) -> Any:
        made.append(anthropic.Anthropic(base_url=run.url + base, api_key=KEY, max_retries=retries))
        return made[-1]

    yield go
    for client in made:
        client.close()


@pytest.fixture
def gpt() -> Iterator[Callable[..., Any]]:
    """OpenAI's client for a run; retries must be asked for."""
    made: list[Any] = []

    def go(run: Run, base: str = "/v1", retries: int = 0) -> Any:
        made.append(openai.OpenAI(base_url=run.url + base, api_key=KEY, max_retries=retries))
        return made[-1]

    yield go
    for client in made:
        client.close()


@pytest.fixture
def gemini() -> Iterator[Callable[..., Any]]:
    """Google's client for a run."""
    made: list[Any] = []

    def go(run: Run, base: str = "") -> Any:
        made.append(genai.Client(api_key=KEY, http_options={"base_url": run.url + base}))
        return made[-1]

    yield go
    for client in made:
        client.close()


def ask_claude(client: Any, **more: Any) -> Any:
    """One message."""
    return client.messages.create(model="claude-x", max_tokens=99, messages=MESSAGES, **more)


def ask_chat(client: Any, **more: Any) -> Any:
    """One chat completion."""
    return client.chat.completions.create(model="gpt-x", messages=MESSAGES, **more)


# --- Anthropic --------------------------------------------------------------------------------------------------------


def test_anthropic_text(provider: Provider, claude: Callable[..., Any], base: str) -> None:
    run = provider.open(Text(WORDS))
    found = ask_claude(claude(run, base))
    assert (found.content[0].text, found.stop_reason, found.usage.output_tokens) == (WORDS, "end_turn", 7)
    assert run.wait("ended")[0].data["tokens"] == 7
    assert run.of("request")[0].data["model"] == "claude-x"


def test_anthropic_stream(provider: Provider, claude: Callable[..., Any], base: str) -> None:
    run = provider.open(Stream(12, 100.0))
    with claude(run, base).messages.stream(model="claude-x", max_tokens=99, messages=MESSAGES) as stream:
        texts = list(stream.text_stream)
        found = stream.get_final_message()
    assert len(texts) == 12 == found.usage.output_tokens
    assert "".join(texts) == found.content[0].text
    assert run.wait("ended")[0].data["tokens"] == 12


@pytest.mark.parametrize("is_streamed", [False, True])
def test_anthropic_tool_call(provider: Provider, claude: Callable[..., Any], is_streamed: bool) -> None:
    run = provider.open(CALL, Text("after it"))
    client = claude(run)
    tools = [{"name": "Read", "input_schema": {"type": "object"}}, {"name": "Bash", "input_schema": SCHEMA}]
    if is_streamed:
        with client.messages.stream(model="claude-x", max_tokens=99, messages=MESSAGES, tools=tools) as stream:
            found = stream.get_final_message()
    else:
        found = ask_claude(client, tools=tools)
    text, call = found.content
    assert (text.text, call.name, call.input, found.stop_reason) == (CALL.text, "Bash", COMMAND, "tool_use")
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "done"}]}
    messages = [*MESSAGES, {"role": "assistant", "content": found.content}, result]
    after = client.messages.create(model="claude-x", max_tokens=99, messages=messages, tools=tools)
    assert after.content[0].text == "after it"


def test_anthropic_counts_tokens_and_lists_models(provider: Provider, claude: Callable[..., Any]) -> None:
    run = provider.open(ToolCall("ls"))
    client = claude(run)
    assert client.messages.count_tokens(model="claude-x", messages=MESSAGES).input_tokens > 5
    assert [one.id for one in client.models.list()] == ["meter"]
    assert run.summary()["requests"] == 0


def test_anthropic_error(provider: Provider, claude: Callable[..., Any]) -> None:
    run = provider.open(Failure(429, 7.0, "not now"), Failure(529, None, "overloaded"))
    with pytest.raises(anthropic.RateLimitError, match="not now") as error:
        ask_claude(claude(run))
    assert error.value.response.headers["retry-after"] == "7"
    with pytest.raises(anthropic.APIStatusError, match="overloaded_error"):
        ask_claude(claude(run))
    assert len(run.wait("ended", 2)) == 2


def test_anthropic_tries_again_when_it_was_told_to(provider: Provider, claude: Callable[..., Any]) -> None:
    run = provider.open(Failure(429, 0.3), Text("at last"))
    assert ask_claude(claude(run, retries=2)).content[0].text == "at last"
    _, second = run.of("request")
    assert 0.29 <= second.at_s - run.of("ended")[0].at_s < 3


# --- OpenAI chat completions ------------------------------------------------------------------------------------------


def test_chat_text(provider: Provider, gpt: Callable[..., Any], base: str) -> None:
    run = provider.open(Text(WORDS))
    found = ask_chat(gpt(run, base))
    choice = found.choices[0]
    assert (choice.message.content, choice.finish_reason, found.usage.completion_tokens) == (WORDS, "stop", 7)
    assert run.wait("ended")[0].data["tokens"] == 7


@pytest.mark.parametrize("wants_usage", [False, True])
def test_chat_stream(provider: Provider, gpt: Callable[..., Any], wants_usage: bool) -> None:
    run = provider.open(Stream(12, 100.0))
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    chunks = list(ask_chat(gpt(run), stream=True, **options))
    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) == 12
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == ([12] if wants_usage else [])
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_chat_tool_call(provider: Provider, gpt: Callable[..., Any], is_streamed: bool) -> None:
    run = provider.open(CALL, Text("after it"))
    client = gpt(run)
    tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    if is_streamed:
        with client.chat.completions.stream(model="gpt-x", messages=MESSAGES, tools=tools) as stream:
            choice = stream.get_final_completion().choices[0]
    else:
        choice = ask_chat(client, tools=tools).choices[0]
    (call,) = choice.message.tool_calls
    assert (choice.message.content, choice.finish_reason) == (CALL.text, "tool_calls")
    assert (call.function.name, json.loads(call.function.arguments)) == ("bash", COMMAND)
    answered = [*MESSAGES, choice.message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "done"}]
    assert client.chat.completions.create(model="gpt-x", messages=answered).choices[0].message.content == "after it"


@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/"])
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda client: client.embeddings.create(model="m", input="x"), id="embeddings"),
        pytest.param(lambda client: client.completions.create(model="m", prompt="x"), id="completions"),
        pytest.param(lambda client: client.images.generate(model="m", prompt="x"), id="images"),
        pytest.param(lambda client: client.moderations.create(input="x"), id="moderations"),
        pytest.param(lambda client: client.audio.speech.create(model="m", voice="alloy", input="x"), id="speech"),
    ],
)
def test_what_is_not_answered_is_counted_behind_any_base(
    provider: Provider, gpt: Callable[..., Any], base: str, ask: Callable[[Any], Any]
) -> None:
    run = provider.open(Text())
    with pytest.raises(openai.NotFoundError):
        ask(gpt(run, base))
    run.wait("ended")
    assert [one.data["side"] for one in run.of("request")] == [False]
    assert run.summary()["requests"] == 1


def test_azures_client_is_answered(provider: Provider) -> None:
    run = provider.open(Text(WORDS))
    with openai.AzureOpenAI(azure_endpoint=run.url, api_key=KEY, api_version="2025-01-01", max_retries=0) as client:
        assert ask_chat(client).choices[0].message.content == WORDS
        with pytest.raises(openai.NotFoundError):
            client.embeddings.create(model="m", input="x")
    run.wait("ended", 2)
    assert [one.data["side"] for one in run.of("request")] == [False, False]


def test_openai_error_and_models(provider: Provider, gpt: Callable[..., Any]) -> None:
    run = provider.open(Failure(429, 7.0, "not now"), Failure(500, None))
    client = gpt(run)
    with pytest.raises(openai.RateLimitError, match="not now") as error:
        ask_chat(client)
    assert error.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.InternalServerError):
        client.responses.create(model="gpt-x", input=PROMPT)
    assert [one.id for one in client.models.list()] == ["meter"]


def test_openai_tries_again_when_it_was_told_to(provider: Provider, gpt: Callable[..., Any]) -> None:
    run = provider.open(Failure(503, 0.3), Text("at last"))
    assert gpt(run, retries=2).responses.create(model="gpt-x", input=PROMPT).output_text == "at last"
    _, second = run.of("request")
    assert 0.29 <= second.at_s - run.of("ended")[0].at_s < 3


# --- OpenAI responses -------------------------------------------------------------------------------------------------


def test_responses_text(provider: Provider, gpt: Callable[..., Any], base: str) -> None:
    run = provider.open(Text(WORDS))
    found = gpt(run, base).responses.create(model="gpt-x", input=PROMPT)
    assert (found.output_text, found.status, found.usage.output_tokens) == (WORDS, "completed", 7)


def test_responses_stream(provider: Provider, gpt: Callable[..., Any]) -> None:
    run = provider.open(Stream(12, 100.0))
    with gpt(run).responses.stream(model="gpt-x", input=PROMPT) as stream:
        kinds = [event.type for event in stream]
        found = stream.get_final_response()
    assert kinds.count("response.output_text.delta") == 12 == found.usage.output_tokens
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert len(found.output_text.split()) == 12


@pytest.mark.parametrize("is_streamed", [False, True])
def test_responses_tool_call(provider: Provider, gpt: Callable[..., Any], is_streamed: bool) -> None:
    run = provider.open(CALL, Text("after it"))
    client = gpt(run)
    tools = [{"type": "function", "name": "Bash", "parameters": SCHEMA, "strict": False}]
    if is_streamed:
        with client.responses.stream(model="gpt-x", input=PROMPT, tools=tools) as stream:
            found = stream.get_final_response()
    else:
        found = client.responses.create(model="gpt-x", input=PROMPT, tools=tools)
    message, call = found.output
    assert message.content[0].text == CALL.text
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "Bash", COMMAND)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    assert client.responses.create(model="gpt-x", input=[call.to_dict(), result]).output_text == "after it"


def test_responses_in_the_background_are_polled_and_cancelled(provider: Provider, gpt: Callable[..., Any]) -> None:
    run = provider.open(Background(1_000_000, 50.0))
    client = gpt(run)
    created = client.responses.create(model="gpt-x", input=PROMPT, background=True)
    assert (created.status, created.background) == ("in_progress", True)
    run.wait("tokens", 3)
    assert client.responses.retrieve(created.id).status == "in_progress"
    assert client.responses.cancel(created.id).status == "cancelled"
    assert client.responses.retrieve(created.id).status == "cancelled"
    assert run.wait("cancelled")[0].data["request"] == "r1"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_unknown")


def test_responses_in_the_background_are_polled_until_they_are_completed(provider: Provider, gpt: Callable[..., Any]) -> None:
    run = provider.open(Background(4, 50.0))
    client = gpt(run)
    created = client.responses.create(model="gpt-x", input=PROMPT, background=True)
    run.wait("ended", request="r1")
    found = client.responses.retrieve(created.id)
    assert (found.status, found.usage.output_tokens, len(found.output_text.split())) == ("completed", 4, 4)


# --- Gemini -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["", "/"])
def test_gemini_text(provider: Provider, gemini: Callable[..., Any], base: str) -> None:
    run = provider.open(Text(WORDS))
    found = gemini(run, base).models.generate_content(model="gemini-x", contents=PROMPT)
    assert (found.text, found.usage_metadata.candidates_token_count) == (WORDS, 7)
    assert found.candidates[0].finish_reason.name == "STOP"
    assert run.of("request")[0].data["model"] == "gemini-x"
    assert not run.of("request")[0].data["stream"]


def test_gemini_stream(provider: Provider, gemini: Callable[..., Any]) -> None:
    run = provider.open(Stream(12, 100.0))
    chunks = list(gemini(run).models.generate_content_stream(model="gemini-x", contents=PROMPT))
    assert len([chunk for chunk in chunks if chunk.text]) == 12
    assert chunks[-1].candidates[0].finish_reason.name == "STOP"
    assert run.of("request")[0].data["stream"]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_gemini_tool_call(provider: Provider, gemini: Callable[..., Any], is_streamed: bool) -> None:
    run = provider.open(CALL, Text("after it"))
    client = gemini(run)
    tools = [{"function_declarations": [{"name": "run_shell_command", "parameters_json_schema": SCHEMA}]}]
    asked = {"model": "gemini-x", "contents": PROMPT, "config": {"tools": tools}}
    answers = list(client.models.generate_content_stream(**asked)) if is_streamed else [client.models.generate_content(**asked)]
    parts = [part for one in answers for part in one.candidates[0].content.parts]
    assert "".join(part.text or "" for part in parts) == CALL.text
    (call,) = [part.function_call for part in parts if part.function_call]
    assert (call.name, call.args) == ("run_shell_command", COMMAND)
    assert client.models.generate_content(model="gemini-x", contents=PROMPT).text == "after it"


def test_gemini_error_and_token_count(provider: Provider, gemini: Callable[..., Any]) -> None:
    run = provider.open(Failure(429, 7.0, "not now"))
    client = gemini(run)
    with pytest.raises(genai.errors.ClientError, match=r"RESOURCE_EXHAUSTED.*not now.*retryDelay.*7s"):
        client.models.generate_content(model="gemini-x", contents=PROMPT)
    assert client.models.count_tokens(model="gemini-x", contents=PROMPT).total_tokens > 5
    assert [one.name for one in client.models.list()] == ["models/meter"]


# --- Held, and gone ---------------------------------------------------------------------------------------------------

STREAMS: dict[str, Callable[..., Any]] = {
    "anthropic": lambda clients, run: ask_claude(clients["claude"](run), stream=True),
    "openai-chat": lambda clients, run: ask_chat(clients["gpt"](run), stream=True),
    "openai-responses": lambda clients, run: clients["gpt"](run).responses.create(model="x", input=PROMPT, stream=True),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "anthropic": lambda clients, run, **more: ask_claude(clients["claude"](run), **more).content[0].text,
    "openai-chat": lambda clients, run, **more: ask_chat(clients["gpt"](run), **more).choices[0].message.content,
    "openai-responses": lambda clients, run, **more: clients["gpt"](run).responses.create(model="x", input=PROMPT, **more).output_text,
    "gemini": lambda clients, run: clients["gemini"](run).models.generate_content(model="x", contents=PROMPT).text,
}


@pytest.fixture
def clients(claude: Any, gpt: Any, gemini: Any) -> dict[str, Any]:
    """All of them."""
    return {"claude": claude, "gpt": gpt, "gemini": gemini}


@pytest.mark.parametrize("wire", WHOLE)
def test_a_held_request_is_answered_once_cancel_was_pressed(provider: Provider, clients: dict[str, Any], wire: str) -> None:
    run = provider.open(HeldUntilPressed(Text("released")))
    answers: list[str] = []
    waits = threading.Thread(target=lambda: answers.append(WHOLE[wire](clients, run)))
    waits.start()
    run.wait("request", wire=wire)
    pressed_at_s = time.monotonic()
    assert run.summary()["open"] == ["r1"] and not answers
    run.press()
    waits.join(10)
    assert answers == ["released"]
    assert run.wait("ended")[0].at_s >= pressed_at_s


@pytest.mark.parametrize("wire", STREAMS)
def test_a_client_that_closes_its_stream_in_the_middle_is_seen_to_go(provider: Provider, clients: dict[str, Any], wire: str) -> None:
    run = provider.open(ENDLESS)
    stream = STREAMS[wire](clients, run)
    chunks = iter(stream)
    for _ in range(8):
        next(chunks)
    assert run.summary()["open"] == ["r1"]
    closed_at_s = time.monotonic()
    stream.close()
    gone = run.wait("disconnected", request="r1")[0]
    assert closed_at_s <= gone.at_s < closed_at_s + 1.0
    assert gone.data["tokens"] > 3
    assert run.summary()["open"] == []


@pytest.mark.parametrize("answer", [HeldUntilPressed(), ENDLESS], ids=["held", "not streamed"])
@pytest.mark.parametrize("wire", STREAMS)
def test_a_client_that_gives_up_before_anything_was_sent_is_seen_to_go(
    provider: Provider, clients: dict[str, Any], wire: str, answer: HeldUntilPressed | Stream
) -> None:
    run = provider.open(answer)
    began_s = time.monotonic()
    with pytest.raises((anthropic.APITimeoutError, openai.APITimeoutError)):
        WHOLE[wire](clients, run, timeout=0.5)
    gone = run.wait("disconnected")[0]
    assert 0.4 < gone.at_s - began_s < 3
    assert (gone.data["tokens"] > 0) == (answer is ENDLESS)


def test_a_gemini_client_that_closes_its_stream_in_the_middle_is_seen_to_go(provider: Provider, gemini: Callable[..., Any]) -> None:
    run = provider.open(ENDLESS)
    client = gemini(run)
    chunks = client.models.generate_content_stream(model="gemini-x", contents=PROMPT)
    for _ in range(4):
        next(chunks)
    chunks.close()
    client.close()
    assert run.wait("disconnected")[0].data["tokens"] >= 4
