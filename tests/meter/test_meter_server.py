"""The meter over plain sockets: what it notes and when, and that no client can upset it."""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from pytest_cancelcontract.answers import Answer, Asked, Background, Failure, HeldUntilPressed, Script, Stream, Text, ToolCall
from pytest_cancelcontract.recorder.meter import runner_answers
from pytest_cancelcontract.recorder.meter.connection import AHEAD_AT_MOST, BODY_AT_MOST
from tests.meter.provider import WITHIN_S, Client, Provider, Run

MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"
ENDLESS = Stream(1_000_000, 20.0)
BASH = [{"name": "Bash", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}]
SILENCE_S = 0.3


def post(client: Client, run: Run, path: str = MESSAGES, headers: str = "", **body: Any) -> None:
    """Ask for an answer."""
    client.ask(f"/{run.key}{path}", {"model": "m"} | body, headers=headers)


# --- What is noted ----------------------------------------------------------------------------------------------------


def test_an_answer_at_once_is_a_request_its_tokens_and_its_end(provider: Provider) -> None:
    run = provider.open(Text("four words are enough"))
    before = time.monotonic()
    client = provider.client()
    post(client, run, headers="x-attempt: 3\r\nx-role: leader\r\n")
    assert client.json()["content"] == [{"type": "text", "text": "four words are enough"}]
    run.wait("ended")
    request, tokens, ended = run.notes
    assert request.data == {
        "request": "r1",
        "wire": "anthropic",
        "path": "/v1/messages",
        "model": "m",
        "stream": False,
        "background": False,
        "attempt": "3",
        "role": "leader",
        "side": False,
        "came_s": request.data["came_s"],
    }
    assert before <= request.data["came_s"] <= request.at_s
    assert (tokens.kind, tokens.data["count"], tokens.data["total"]) == ("tokens", 4, 4)
    assert (ended.kind, ended.data) == ("ended", {"request": "r1", "status": 200, "tokens": 4})
    assert before <= request.at_s <= tokens.data["since_s"] <= tokens.at_s <= ended.at_s <= time.monotonic()
    assert run.summary() == {"requests": 1, "tokens": 4, "open": [], "disconnected": 0}


def test_the_tokens_of_a_stream_are_noted_as_they_are_made_and_not_more_often_than_every_50_ms(provider: Provider) -> None:
    run = provider.open(Stream(60, 150.0))
    client = provider.client()
    post(client, run, stream=True)
    assert client.answer()[2].count(b"text_delta") == 60
    run.wait("ended")
    tokens = run.of("tokens")
    assert tokens[0].data["count"] == 1
    assert sum(one.data["count"] for one in tokens) == tokens[-1].data["total"] == 60
    assert all(later.data["since_s"] == earlier.at_s for earlier, later in pairwise(tokens))
    gaps = [later.at_s - earlier.at_s for earlier, later in pairwise(tokens[:-1])]
    assert gaps and min(gaps) >= 0.05
    assert 0.38 < tokens[-1].at_s - tokens[0].at_s < 2.0, "59 / 150 s, or more where the machine is late"


def test_a_slow_stream_notes_every_token_by_itself(provider: Provider) -> None:
    run = provider.open(ENDLESS)
    client = provider.client()
    post(client, run, stream=True)
    tokens = run.wait("tokens", 8)
    assert sum(one.data["count"] for one in tokens) == pytest.approx((tokens[-1].at_s - tokens[0].at_s) * 20 + 1, abs=1)
    assert statistics.median(one.data["count"] for one in tokens) == 1


def test_what_was_made_is_noted_before_a_look(provider: Provider) -> None:
    """A stream between two of its notes has tokens that nobody was told of; the summary tells all of them first."""
    run = provider.open(Stream(1_000_000, 1000.0))
    client = provider.client()
    post(client, run, stream=True)
    began_s = run.wait("tokens", 2)[0].data["since_s"]
    for _ in range(20):
        due = int((time.monotonic() - began_s) * 1000)
        summary = run.summary()
        assert sum(one.data["count"] for one in run.of("tokens")) >= summary["tokens"] >= due
        assert (summary["requests"], summary["open"]) == (1, ["r1"])


def test_asking_what_is_open_notes_nothing(provider: Provider) -> None:
    """It is asked at every turn of a drill; whoever looks at the book wants the tokens in it, and that notes them."""
    run = provider.open(Stream(1_000_000, 1000.0))
    post(provider.client(), run, stream=True)
    run.wait("tokens")

    def ask() -> tuple[list[str], int, int, int]:
        time.sleep(0.02)  # in the loop, so that tokens are due which no timer has noted
        before = len(run.notes)
        open_requests, noted = run.account.open_requests, len(run.notes)
        run.account.summary()
        return open_requests, before, noted, len(run.notes)

    open_requests, before, noted, behind_a_look = provider.inside(ask)
    assert open_requests == ["r1"]
    assert before == noted < behind_a_look


def test_an_answer_that_is_not_streamed_is_held_until_all_was_made_and_is_noted_meanwhile(provider: Provider) -> None:
    run = provider.open(Stream(10, 20.0))
    client = provider.client()
    post(client, run)
    run.wait("tokens", 3)
    assert client.is_silent(0.05)
    assert not run.of("ended")
    assert client.json()["usage"]["output_tokens"] == 10
    assert run.wait("ended")[0].data["tokens"] == 10


# --- Disconnects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "half", "reset"])
@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        pytest.param(ENDLESS, True, id="in mid-stream"),
        pytest.param(ENDLESS, False, id="while tokens are made and nothing is sent"),
        pytest.param(HeldUntilPressed(Text()), False, id="while nothing is made"),
        pytest.param(HeldUntilPressed(ENDLESS), True, id="while a stream is held"),
    ],
)
def test_a_client_that_goes_is_noted_at_once(provider: Provider, answer: Answer, stream: bool, how: str) -> None:
    run = provider.open(answer)
    client = provider.client()
    post(client, run, stream=stream)
    run.wait("tokens", 2) if isinstance(answer, Stream) else run.wait("request")
    left_at_s = time.monotonic()
    if how == "reset":
        client.link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.link.shutdown(socket.SHUT_WR) if how == "half" else client.link.close()
    gone = run.wait("disconnected")[0]
    assert gone.data == {"request": "r1", "tokens": sum(one.data["count"] for one in run.of("tokens"))}
    assert left_at_s <= gone.at_s < left_at_s + 1.0
    assert run.summary() == {"requests": 1, "tokens": gone.data["tokens"], "open": [], "disconnected": 1}
    assert not run.of("ended")


def test_nothing_is_made_for_a_client_that_went(provider: Provider) -> None:
    run = provider.open(Stream(1_000_000, 200.0))
    client = provider.client()
    post(client, run, stream=True)
    run.wait("tokens", 2)
    client.link.close()
    run.wait("disconnected")
    count = run.summary()["tokens"]
    other = provider.open(Stream(20, 50.0))
    second = provider.client()
    post(second, other, stream=True)
    other.wait("ended")
    assert run.summary()["tokens"] == count
    assert run.notes[-1].kind == "disconnected"


def test_a_client_that_does_not_read_spends_and_delays_nobody(provider: Provider) -> None:
    """Tokens are made by the clock, their bytes wait; and no more of them than one write is kept."""
    slow, quick = provider.open(Stream(1_000_000, 100_000.0)), provider.open(Stream(40, 100.0))
    lazy = provider.client()
    lazy.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    post(lazy, slow, stream=True)
    slow.wait("tokens", 5)
    client = provider.client()
    post(client, quick, stream=True)
    client.answer()
    quick.wait("ended")
    took_s = quick.of("ended")[0].at_s - quick.of("request")[0].at_s
    assert 0.38 < took_s < 2.0

    def buffered() -> int:
        (connection,) = [one for one in slow.account.connections if one.is_blocked]  # type: ignore[attr-defined]
        size: int = connection._transport.get_write_buffer_size()  # type: ignore[attr-defined]
        return size

    assert 0 < provider.inside(buffered) < 100_000
    began_s, before_s = slow.of("tokens")[0].data["since_s"], time.monotonic()
    summary = slow.summary()
    assert (before_s - began_s) * 100_000 < summary["tokens"] <= (time.monotonic() - began_s) * 100_000 + 1
    assert summary["open"] == ["r1"]


def test_a_client_that_does_not_read_and_goes_is_noted(provider: Provider) -> None:
    """Its bytes wait for nobody: what is buffered must not keep the connection."""
    run = provider.open(Stream(1_000_000, 100_000.0))
    client = provider.client()
    post(client, run, stream=True)
    blocked = False
    while not blocked:
        run.wait("tokens", len(run.of("tokens")) + 1)
        blocked = provider.inside(lambda: any(one.is_blocked for one in run.account.connections))  # type: ignore[attr-defined]
    client.link.shutdown(socket.SHUT_WR)
    run.wait("disconnected")


def test_a_client_that_reads_again_gets_all_of_it(provider: Provider) -> None:
    tokens = 150_000  # far more bytes than the kernel buffers
    run = provider.open(Stream(tokens, 5_000_000.0))
    client = provider.client()
    client.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    post(client, run, stream=True)
    run.wait("tokens", total=tokens)
    assert not run.of("ended"), "what the client has not read cannot have been sent"
    body = client.answer()[2]
    assert body.count(b"text_delta") == tokens
    assert body.endswith(b'data: {"type":"message_stop"}\n\n')
    assert run.wait("ended")[0].data["tokens"] == tokens


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_open_until_the_kernel_has_all_of_its_answer(provider: Provider, stream: bool) -> None:
    """Also where little is missing: buffers are made small on both sides, and the answer somewhat larger."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # the accepted sockets inherit it
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    listener.setblocking(False)
    provider.inside(lambda: provider.meter.listen([listener]))
    run = provider.open(Text("word " * (400 if stream else 8000)))
    with socket.socket() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(listener.getsockname())
        client = Client(link)
        post(client, run, stream=stream)
        run.wait("tokens")
        assert run.summary()["open"] == ["r1"]
        client.answer()
        run.wait("ended")
        assert run.summary()["open"] == []


# --- Held, failed, in the background ----------------------------------------------------------------------------------


def test_a_held_request_is_silent_until_cancel_was_pressed(provider: Provider) -> None:
    run = provider.open(HeldUntilPressed(Text("now")))
    client = provider.client()
    post(client, run)
    run.wait("request")
    assert client.is_silent(SILENCE_S)
    assert run.summary()["open"] == ["r1"]
    run.press()
    assert client.json()["content"][0]["text"] == "now"
    run.wait("ended")
    post(client, run)
    assert client.json()["content"][0]["text"] == "now", "after it was pressed nothing is held"


def test_a_failure_says_when_to_try_again(provider: Provider) -> None:
    run = provider.open(Failure(429, 1.5, "too many"), Failure(529, None))
    client = provider.client()
    post(client, run, stream=True)
    status, headers, body = client.answer()
    assert (status, headers["retry-after"], headers["retry-after-ms"]) == (429, "2", "1500")
    assert json.loads(body)["error"] == {"type": "rate_limit_error", "message": "too many"}
    post(client, run)
    status, headers, _ = client.answer()
    assert status == 529 and "retry-after" not in headers
    assert [one.data["status"] for one in run.wait("ended", 2)] == [429, 529]


def test_background_work_goes_on_without_its_connection_and_is_cancelled_by_a_call(provider: Provider) -> None:
    run = provider.open(Background(1_000_000, 50.0))
    client = provider.client()
    post(client, run, RESPONSES, background=True)
    created = client.json()
    assert created["status"] == "in_progress"
    client.link.close()
    noted = len(run.of("tokens"))
    run.wait("tokens", noted + 3)
    assert not run.of("disconnected")
    other = provider.client()
    other.ask(f"/{run.key}{RESPONSES}/{created['id']}", method="GET")
    assert other.json()["status"] == "in_progress"
    assert run.summary()["open"] == ["r1"]
    other.ask(f"/{run.key}{RESPONSES}/{created['id']}/cancel")
    assert other.json()["status"] == "cancelled"
    cancelled = run.wait("cancelled")[0]
    assert cancelled.data == {"request": "r1", "tokens": sum(one.data["count"] for one in run.of("tokens"))}
    other.ask(f"/{run.key}{RESPONSES}/{created['id']}/cancel")
    assert other.json()["status"] == "cancelled", "cancelled twice is cancelled"
    assert len(run.of("cancelled")) == 1
    assert [one.data["side"] for one in run.of("request")] == [False, True, True, True]
    assert run.summary() == {"requests": 1, "tokens": cancelled.data["tokens"], "open": [], "disconnected": 0}


def test_background_work_is_completed_and_then_polled_with_its_output(provider: Provider) -> None:
    run = provider.open(Background(5, 50.0))
    client = provider.client()
    post(client, run, RESPONSES, background=True)
    created = client.json()
    assert run.wait("ended", request="r1")[0].data == {"request": "r1", "status": 200, "tokens": 5}
    client.ask(f"/{run.key}{RESPONSES}/{created['id']}", method="GET")
    found = client.json()
    assert (found["status"], found["usage"]["output_tokens"]) == ("completed", 5)
    client.ask(f"/{run.key}{RESPONSES}/{created['id']}/cancel")
    assert client.json()["status"] == "completed", "what is completed cannot be cancelled"


def test_background_work_that_is_held_is_queued(provider: Provider) -> None:
    run = provider.open(HeldUntilPressed(Background(1, 50.0)))
    client = provider.client()
    post(client, run, RESPONSES, background=True)
    assert client.json()["status"] == "queued"
    run.press()
    run.wait("ended", request="r1")


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        pytest.param(MESSAGES, {}, "only OpenAI responses with background=true", id="another format"),
        pytest.param(RESPONSES, {}, "only OpenAI responses with background=true", id="not in the background"),
        pytest.param(RESPONSES, {"background": True, "stream": True}, "poll it", id="streamed"),
    ],
)
def test_background_work_that_cannot_be_is_refused(provider: Provider, path: str, body: dict[str, Any], words: str) -> None:
    run = provider.open(Background(1, 1.0))
    client = provider.client()
    post(client, run, path, **body)
    status, _, answer = client.answer()
    assert status == 400 and words in answer.decode()
    (refused,) = run.wait("refused")
    assert (refused.data["path"], refused.data["status"]) == (path, 400)
    assert words in refused.data["why"]


def test_the_bundled_runners_answers(provider: Provider) -> None:
    run = provider.open(choose=runner_answers.choose)
    client = provider.client()
    post(client, run, model="uncooperative/call")
    assert client.json()["usage"]["output_tokens"] == 4
    post(client, run, RESPONSES, model="uncooperative/background", background=True)
    assert client.json()["status"] == "in_progress"
    post(client, run, model="gpt")
    assert client.answer()[0] == 404
    post(client, run, model="uncooperative/held")
    run.wait("tokens", 3, request="r4")
    assert client.is_silent(0.05)
    other = provider.client()
    post(other, run, model="uncooperative/stream", stream=True)
    other.until(b"text_delta")
    assert run.summary()["open"] == ["r2", "r4", "r5"]


# --- The script, and requests on the side -----------------------------------------------------------------------------


def test_requests_on_the_side_take_nothing_from_the_script(provider: Provider) -> None:
    run = provider.open(ToolCall("ls"), Text("second"))
    client = provider.client()
    client.ask(f"/{run.key}", method="HEAD")
    assert b" 200 " in client.until(b"\r\n\r\n")
    client.ask(f"/{run.key}/v1/models", method="GET")
    assert client.json()["models"]
    client.ask(f"/{run.key}/v1/models?client_version=0.171", method="GET")
    assert client.json()["models"] == [], "codex keeps the models that it knows"
    client.ask(f"/{run.key}{MESSAGES}/count_tokens", {"model": "m", "messages": [{"content": "x" * 400}]})
    assert client.json()["input_tokens"] > 100
    client.ask(f"/{run.key}/v1beta/models/g:countTokens", {})
    assert client.json()["totalTokens"] > 0
    post(client, run)  # a title: it offers no tools
    assert client.json()["content"] == [{"type": "text", "text": "Done."}]
    post(client, run, tools=BASH)
    assert client.json()["content"][0]["input"] == {"command": "ls"}
    post(client, run)
    assert client.json()["content"][0]["text"] == "second"
    assert [one.data["side"] for one in run.wait("request", 8)] == [True] * 6 + [False, False]
    run.wait("ended", 8)
    assert run.summary()["requests"] == 2


def test_once_a_tool_call_was_given_who_asks_without_tools_spends(provider: Provider) -> None:
    """The script's last answer repeats, and it is a tool call: what is left of the run gets a word each time, and that is counted."""
    run = provider.open(ToolCall("ls"))
    client = provider.client()
    for tools in ([], BASH, [], []):
        post(client, run, tools=tools)
        client.answer()
    run.wait("ended", 4)
    assert [one.data["side"] for one in run.of("request")] == [True, False, False, False]
    assert [one.data["tokens"] > 0 for one in run.of("ended")] == [True] * 4
    assert run.summary()["requests"] == 3


def test_a_word_takes_no_tool_call_from_the_script(provider: Provider) -> None:
    run = provider.open(ToolCall("one"), ToolCall("two"), Text("end"))
    client = provider.client()
    said = []
    for tools in (BASH, [], BASH):
        post(client, run, tools=tools)
        said.append(client.json()["content"][-1])
    assert [one.get("input", {}).get("command") for one in said] == ["one", None, "two"]


def test_a_script_is_told_what_is_asked(provider: Provider) -> None:
    told: list[Asked] = []

    def choose(asked: Asked) -> Answer:
        told.append(asked)
        return Text()

    run = provider.open(choose=choose)
    client = provider.client()
    results = [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]
    for body in ({"tools": BASH}, {"messages": results, "stream": True}):
        post(client, run, **body)
        client.answer()
    assert told == [
        Asked("anthropic", "m", offers_tools=("Bash",)),
        Asked("anthropic", "m", stream=True, tool_results=1, previous=1),
    ]


def test_a_script_that_fails_is_told_to_the_client_and_noted(provider: Provider) -> None:
    def choose(asked: Asked) -> Answer:
        raise LookupError(f"no answer for {asked.model}")

    run = provider.open(choose=choose)
    client = provider.client()
    post(client, run)
    status, _, body = client.answer()
    assert status == 500 and b"LookupError: no answer for m" in body
    assert run.wait("refused")[0].data["status"] == 500
    assert run.summary()["requests"] == 1
    assert run.account.previous == 0, "no answer was taken"


def test_a_tool_call_that_no_tool_can_do_is_refused_and_stays_the_next_answer(provider: Provider) -> None:
    run = provider.open(ToolCall("ls"), Text("second"))
    client = provider.client()
    post(client, run, tools=[{"name": "Look", "input_schema": {}}])
    assert client.answer()[0] == 400
    client = provider.client()
    post(client, run, tools=BASH)
    assert client.json()["stop_reason"] == "tool_use"


# --- When it came -----------------------------------------------------------------------------------------------------

BUSY_S = 0.3
TICKS_S = 0.05
"""More than the kernel's own dates are rough by."""


def busy(provider: Provider) -> threading.Event:
    """The loop does something else for a while, from now on; the event says that it is over."""
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(BUSY_S)
        over.set()

    provider.loop.call_soon_threadsafe(work)
    assert begun.wait(WITHIN_S)
    return over


def came(run: Run, times: int = 1) -> list[float]:
    """When the requests came."""
    return [one.data["came_s"] for one in run.wait("request", times)]


def test_a_request_that_waits_to_be_accepted_came_when_it_was_sent(provider: Provider) -> None:
    """And its client is gone by the time at which it is read."""
    run = provider.open(Text())
    over = busy(provider)
    client = provider.client()
    before_s = time.monotonic()
    post(client, run)
    after_s = time.monotonic()
    time.sleep(2 * TICKS_S)  # that it goes is no data
    client.link.shutdown(socket.SHUT_WR)
    assert not over.is_set(), "this machine was too slow to see it"
    (request,) = run.wait("request")
    assert before_s <= request.data["came_s"] <= after_s + TICKS_S
    assert request.at_s >= before_s + BUSY_S / 2


def test_a_request_on_a_kept_connection_came_when_it_was_sent(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    post(client, run)
    client.answer()
    over = busy(provider)
    before_s = time.monotonic()
    post(client, run)
    after_s = time.monotonic()
    assert not over.is_set(), "this machine was too slow to see it"
    assert before_s <= came(run, 2)[1] <= after_s + TICKS_S


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param("content-length: 2\r\n\r\n", "{}", id="all of the body"),
        pytest.param("content-length: 2\r\n\r\n{", "}", id="its last byte"),
        pytest.param("content-length: 0\r\n", "\r\n", id="the end of the head"),
        pytest.param("transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", "\r\n", id="the end of the chunks"),
        pytest.param("transfer-encoding: chunked\r\n\r\n", "zz\r\n", id="what makes it malformed"),
    ],
)
def test_a_request_in_pieces_came_with_its_last_byte(provider: Provider, first: str, last: str) -> None:
    """A first byte that was sent ahead costs nothing; who sends the rest at last is asking then. And it is read later still."""
    run = provider.open(Text())
    client = provider.client()
    client.send(b"P")
    time.sleep(SILENCE_S)
    client.send(f"OST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\n{first}".encode())
    time.sleep(SILENCE_S)
    over = busy(provider)
    before_s = time.monotonic()
    client.send(last.encode())
    after_s = time.monotonic()
    assert not over.is_set(), "this machine was too slow to see it"
    assert before_s <= came(run)[0] <= after_s + TICKS_S
    assert run.of("request")[0].at_s >= before_s + BUSY_S / 2


def test_a_request_that_was_sent_ahead_begins_when_the_one_before_it_is_over(provider: Provider) -> None:
    run = provider.open(Stream(5, 20.0), Text())
    client = provider.client()
    body = b'{"stream":true}'
    one = f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    client.send(one * 2)
    second = run.wait("request", 2)[1]
    assert run.of("ended")[0].at_s <= second.data["came_s"] <= second.at_s


def test_a_request_of_which_a_part_was_sent_ahead_begins_when_it_is_whole(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    one = f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    client.send(one + one[:-1])
    client.answer()
    time.sleep(SILENCE_S)
    before_s = time.monotonic()
    client.send(one[-1:])
    assert before_s <= came(run, 2)[1]


def test_no_request_came_before_it_was_sent(provider: Provider) -> None:
    """The kernel tells time in ticks: none of a date's error may make it too early."""
    run = provider.open(Text())
    client = provider.client()
    sent_s = []
    for _ in range(200):
        sent_s.append(time.monotonic())
        post(client, run)
        client.answer()
        time.sleep(0.0013)
    assert all(sent <= at_s + 1e-6 for sent, at_s in zip(sent_s, came(run, 200), strict=True))


# --- HTTP -------------------------------------------------------------------------------------------------------------


def test_a_connection_is_kept_for_the_next_request(provider: Provider) -> None:
    run = provider.open(Text("one"), Text("two"))
    client = provider.client()
    for words in ("one", "two"):
        post(client, run)
        assert client.json()["content"][0]["text"] == words
    post(client, run, headers="connection: close\r\n")
    assert b"two" in client.rest()


def test_a_request_on_a_kept_connection_waits_for_no_acknowledgement(provider: Provider) -> None:
    """Else each takes as long as the client's kernel waits before it acknowledges the head, 40 ms and more."""
    run = provider.open(Text("one"))
    client = provider.client()
    took = []
    for _ in range(30):
        began_s = time.monotonic()
        post(client, run)
        client.answer()
        took.append(time.monotonic() - began_s)
    assert statistics.median(took[10:]) < 0.02


@pytest.mark.parametrize(("key", "status"), [("nobody", 404), ("shut", 410)])
def test_a_head_for_an_account_that_is_not_open_gets_no_content(provider: Provider, key: str, status: int) -> None:
    run = provider.open(Text(), key="shut")
    run.shut()
    client = provider.client()
    client.ask(f"/{key}/", method="HEAD")
    head, _, body = client.rest().partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()) and body == b""
    # The fixture looks whether anything went wrong in the loop.


def test_an_answer_of_millions_of_tokens_in_one_piece_holds_up_nobody(provider: Provider) -> None:
    run = provider.open(Stream(10_000_000, 1e9))
    client = provider.client()
    latest_s = 0.0

    async def watch() -> None:
        nonlocal latest_s
        while not run.of("ended"):
            before_s = time.monotonic()
            await asyncio.sleep(0)
            latest_s = max(latest_s, time.monotonic() - before_s)

    watching = asyncio.run_coroutine_threadsafe(watch(), provider.loop)
    post(client, run)
    assert client.json()["usage"]["output_tokens"] == 10_000_000
    watching.result(WITHIN_S)
    assert run.of("ended")[0].data["tokens"] == run.summary()["tokens"] == 10_000_000
    assert latest_s < 0.2, "all of the words take 2 s"


def test_many_requests_in_one_piece_are_answered_in_order(provider: Provider) -> None:
    run = provider.open(Text("same"))
    client = provider.client()
    body = b'{"model":"m"}'
    one = f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    client.send(one * 2000)
    assert [client.json()["id"] for _ in range(2000)] == [f"msg_{number}" for number in range(1, 2001)]


@pytest.mark.parametrize("between_s", [0.0, 0.05], ids=["in one piece", "in pieces"])
@pytest.mark.parametrize("blank", [b"\r\n", b"\r\n\r\n", b"\n"], ids=["an empty line", "two", "one without CR"])
def test_empty_lines_before_a_request_keep_nobody_from_being_counted(provider: Provider, blank: bytes, between_s: float) -> None:
    """Some clients end a body with one that is not of it (RFC 9112, section 2.2)."""
    run = provider.open(Text("here"))
    client = provider.client()
    one = f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    pieces = [blank, one, blank, blank, one, one + blank, blank[:1], blank[1:] + one]
    for piece in pieces if between_s else [b"".join(pieces)]:
        client.send(piece)
        time.sleep(between_s)
    for _ in range(4):
        assert client.json()["content"][0]["text"] == "here"
    assert len(run.of("request", side=False)) == run.summary()["requests"] == 4


def test_the_empty_line_behind_a_head_ends_it(provider: Provider) -> None:
    """In a piece of its own, too."""
    run = provider.open(Text("here"))
    client = provider.client()
    for piece in (f"GET /{run.key}/ HTTP/1.1\r\nhost: m\r\n", "\r", "\n"):
        client.send(piece.encode())
        time.sleep(0.05)
    assert client.answer()[0] == 200


def test_an_old_client_without_chunks_gets_its_stream(provider: Provider) -> None:
    run = provider.open(Stream(5, 100.0))
    client = provider.client()
    body = b'{"stream":true}'
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.0\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    answer = client.rest()
    assert answer.count(b"text_delta") == 5 and b"chunked" not in answer
    assert answer.endswith(b'{"type":"message_stop"}\n\n')


def test_a_client_that_waits_for_100_continue_is_told_to(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n".encode())
    assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
    client.send(b"{}")
    assert client.answer()[0] == 200


def test_a_body_in_chunks_and_in_drops_is_read(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ntransfer-encoding: chunked\r\n\r\n".encode())
    for drop in b'7\r\n{"model\r\n7\r\n":"odd"\r\n1;ext=1\r\n}\r\n0\r\n\r\n':
        client.send(bytes([drop]))
    assert client.json()["model"] == "odd"


def test_a_whole_conversation_of_megabytes_is_read(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    post(client, run, messages=[{"role": "user", "content": "x" * 1000} for _ in range(3000)])
    assert client.json()["usage"]["input_tokens"] > 700_000


@pytest.mark.parametrize(
    ("request_", "status", "is_noted"),
    [
        pytest.param(b"nonsense\r\n\r\n", 400, False, id="no HTTP"),
        pytest.param(b"\0\xff" * 200_000, 400, False, id="bytes"),
        pytest.param(b"GET /KEY HTTP/1.1\r\n\r\n", 400, False, id="no host"),
        pytest.param(b"GET /KEY HTTP/1.1\r\nhost: m\r\nx: " + b"y" * 300_000 + b"\r\n\r\n", 431, False, id="a head without end"),
        pytest.param(b"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: 1\r\n\r\n{", 400, True, id="no JSON"),
        pytest.param(b"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n[]", 400, True, id="no object"),
        pytest.param(
            b"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: 90000\r\n\r\n" + b"[" * 90000, 400, True, id="too deep"
        ),
        pytest.param(
            b"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400, True, id="a broken chunk"
        ),
        pytest.param(
            b"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-encoding: zstd\r\ncontent-length: 2\r\n\r\n{}",
            400,
            True,
            id="compressed",
        ),
        pytest.param(b"GET /KEY/v1/messages HTTP/1.1\r\nhost: m\r\n\r\n", 404, True, id="the wrong method"),
        pytest.param(b"POST /KEY/v1/embeddings HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n{}", 404, True, id="an unknown call"),
        pytest.param(b"GET /KEY/v1/responses/resp_9 HTTP/1.1\r\nhost: m\r\n\r\n", 404, True, id="an unknown id"),
        pytest.param(b"POST /nobody/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n{}", 404, False, id="nobody's key"),
        pytest.param(b"POST / HTTP/1.1\r\nhost: m\r\ncontent-length: 2\r\n\r\n{}", 404, False, id="no key"),
    ],
)
def test_nonsense_is_refused_and_the_next_client_is_served(provider: Provider, request_: bytes, status: int, is_noted: bool) -> None:
    run = provider.open(Text())
    client = provider.client()
    try:
        client.send(request_.replace(b"KEY", run.key.encode()))
        answer = client.rest()
    except ConnectionError:
        answer = b""  # it was still sending when it was answered, and the connection is reset
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()) or (not answer and len(request_) > 100_000)
    other = provider.client()
    post(other, run)
    assert other.answer()[0] == 200
    run.wait("ended")
    assert [one.data["status"] for one in run.of("refused")] == ([status] if is_noted else [])
    assert run.summary()["requests"] == len(run.of("request", side=False))


@pytest.mark.parametrize(
    ("path", "headers", "body", "wire", "side"),
    [
        pytest.param("/v1/embeddings", "", b"{}", "other", False, id="a call that costs"),
        pytest.param("/v1beta/models/x:embedContent", "", b"{}", "other", False, id="another one"),
        *(
            pytest.param(path, "", b"{}", "other", False, id=f"costs without a version: {path}")
            for path in (
                "/embeddings",
                "/completions",
                "/images/generations",
                "/audio/speech",
                "/videos",
                "/moderations",
                "/batches/",
                "/openai/deployments/d/embeddings",
                "//embeddings",
                "/messages/batches",
                "/responses/compact",
                "/a/gateway/of/ours/chat/completions",
                "/projects/p/models/g:batchEmbedContents",
                "/publishers/anthropic/models/c:streamRawPredict",
                "/model/c/invoke-with-response-stream",
                "/api/chat",
                "/api/generate",
                "/api/embed",
                "/generate",
                "/generate_stream",
                "/completion",
                "/embedding",
                "/chat",
                "/v1/chat",
            )
        ),
        pytest.param("/v1/something/new", "", b"{}", "other", False, id="an unknown call below a version"),
        pytest.param("/openai/v1/something/new", "", b"{}", "other", False, id="an unknown call below another's version"),
        pytest.param("/something/new", "", b"{}", "other", True, id="an unknown call of nobody's API"),
        pytest.param("/api/event_logging/batch", "", b"{}", "other", True, id="telemetry"),
        pytest.param("/api/event_logging/v2/batch", "", b"{}", "other", True, id="telemetry of a version"),
        pytest.param("/v1/traces", "", b"{}", "other", True, id="telemetry below a version"),
        pytest.param("/v1/messages/batches/b/cancel", "", b"{}", "other", True, id="a batch that is called off"),
        *(
            pytest.param(path, "", b"{}", "other", True, id=f"housekeeping: {path}")
            for path in (
                "/v1/oauth/token",
                "/v1/mcp",
                "/v1/initialize",
                "/v1/files",
                "/v1/rgstr",
                "/v1/events/batch",
                "/v1/event_logging/v2/batch",
                "/v1/telemetry/",
                "/v1/models/g:countTokens/",
            )
        ),
        *(
            pytest.param(path, "", b"{}", "other", False, id=f"no housekeeping: {path}")
            for path in ("/v1/threads/events/runs", "/v1/events/e/work", "/v1/mcp/work", "/v1/oauth/token/work", "/v1/conversations")
        ),
        pytest.param("/a/gateway/of/ours/messages/count_tokens", "", b"{}", "other", True, id="a count behind a gateway"),
        pytest.param("/v1internal:loadCodeAssist", "", b"{}", "other", True, id="an account's settings"),
        pytest.param(MESSAGES, "content-encoding: gzip\r\n", b"{}", "anthropic", False, id="compressed"),
        pytest.param(MESSAGES, "", b"{", "anthropic", False, id="malformed"),
        pytest.param(f"{MESSAGES}/count_tokens", "", b"{", "anthropic", True, id="a count"),
        pytest.param(f"{RESPONSES}/resp_9/cancel", "", b"{}", "openai-responses", True, id="a cancel of nothing"),
    ],
)
def test_what_is_refused_was_asked_all_the_same(provider: Provider, path: str, headers: str, body: bytes, wire: str, side: bool) -> None:
    run = provider.open(Text("first"), Text("second"))
    for number in (1, 2):
        client = provider.client()
        client.ask(f"/{run.key}{path}", body, headers=f"x-attempt: a-1\r\n{headers}")
        status, _, _ = client.answer()
        assert run.wait("ended", number)[-1].data == {"request": f"r{number}", "status": status, "tokens": 0}
    noted = (wire, path.replace("//", "/"), side, "a-1")
    assert [tuple(one.data[name] for name in ("wire", "path", "side", "attempt")) for one in run.of("request")] == [noted] * 2
    assert run.summary() == {"requests": 0 if side else 2, "tokens": 0, "open": [], "disconnected": 0}
    client = provider.client()
    post(client, run)
    assert client.json()["content"][0]["text"] == "first", "the script waits"


@pytest.mark.parametrize(
    ("path", "upgrade", "side"),
    [
        pytest.param(RESPONSES, "websocket", False, id="responses"),
        pytest.param("/realtime", "WebSocket", False, id="realtime"),
        pytest.param("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", "websocket", False, id="gemini live"),
        pytest.param(RESPONSES, "h2c", True, id="another upgrade"),
        pytest.param("/feed", "websocket", True, id="another socket"),
    ],
)
def test_a_websocket_on_which_is_asked_is_counted(provider: Provider, path: str, upgrade: str, side: bool) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.ask(f"/{run.key}{path}", method="GET", headers=f"connection: Upgrade\r\nupgrade: {upgrade}\r\n")
    assert client.answer()[0] == 404
    assert [one.data["side"] for one in run.wait("request")] == [side]
    assert run.summary()["requests"] == (0 if side else 1)


@pytest.mark.parametrize("path", ["//v1/messages", "/v1//messages", "/api/v1/messages"])
def test_what_stands_before_a_call_that_is_known_keeps_nobody_from_an_answer(provider: Provider, path: str) -> None:
    run = provider.open(Text("here"))
    client = provider.client()
    post(client, run, path)
    assert client.json()["content"][0]["text"] == "here"
    assert run.summary()["requests"] == 1


def test_a_broken_head_of_a_chunk_was_asked_too(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".encode())
    client.rest()
    assert run.kinds() == ["request", "refused", "ended"]
    assert run.summary()["requests"] == 1


def test_a_body_without_end_is_refused(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: {BODY_AT_MOST * 2}\r\n\r\n".encode())
    with pytest.raises(ConnectionError):
        while True:
            client.send(b"x" * 65536)
    assert run.wait("refused")[0].data["status"] == 413


def test_a_client_that_sends_on_and_on_while_it_is_answered_is_cut(provider: Provider) -> None:
    run = provider.open(HeldUntilPressed())
    client = provider.client()
    post(client, run)
    with pytest.raises(ConnectionError):
        for _ in range(100):
            client.send(b"x" * AHEAD_AT_MOST)
    run.wait("disconnected")


def test_a_client_that_goes_within_its_request_is_nobodys_request(provider: Provider) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(f"POST /{run.key}{MESSAGES} HTTP/1.1\r\nhost: m\r\ncontent-length: 9\r\n\r\n{{".encode())
    client.link.close()
    other = provider.client()
    post(other, run)
    other.answer()
    run.wait("ended")
    assert run.kinds() == ["request", "tokens", "ended"]


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_unix_socket_is_served_too(provider: Provider, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = str(tmp_path_factory.mktemp("m") / "s") if kind == "path" else f"\0cancelcontract-meter-{id(provider)}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(name)
    listener.listen()
    listener.setblocking(False)
    provider.inside(lambda: provider.meter.listen([listener]))
    run = provider.open(Text("here"))
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(name)
        client = Client(link)
        before_s = time.monotonic()
        post(client, run)
        assert client.json()["content"][0]["text"] == "here"
        assert before_s <= run.of("request")[0].data["came_s"] <= time.monotonic()


# --- Ends -------------------------------------------------------------------------------------------------------------


def test_a_shut_account_drops_what_is_open_and_is_silent(provider: Provider) -> None:
    """The streaming, the waiting, the held, the one in the background; a connection that only was used brings its next client a 410."""
    answers: dict[str, Answer] = {"stream": ENDLESS, "held": HeldUntilPressed(), "back": Background(1_000_000, 50.0), "once": Text()}
    run = provider.open(choose=lambda asked: answers[asked.model])
    other = provider.open(ENDLESS)
    clients = [provider.client() for _ in range(5)]
    post(clients[0], run, model="stream", stream=True)
    post(clients[1], run, model="stream")
    post(clients[2], run, model="held")
    post(clients[3], run, RESPONSES, model="back", background=True)
    post(clients[4], run, model="once")
    clients[4].answer()
    run.wait("request", 5)
    bystander = provider.client()
    post(bystander, other, stream=True)
    other.wait("tokens", 2)
    run.shut()
    noted = len(run.notes)
    for client in clients[:3]:
        client.rest()
    for late in (clients[4], provider.client()):
        post(late, run)
        assert late.answer()[0] == 410
    other.wait("tokens", len(other.of("tokens")) + 4)
    assert len(run.notes) == noted
    with pytest.raises(ValueError, match="not used before"):
        provider.open(Text(), key=run.key)


def test_a_gateways_connection_outlives_the_account_that_it_carried_before(provider: Provider) -> None:
    """One kept connection for two runs: the end of the first must not cut what the second has open on it."""
    first, second = provider.open(Text("one")), provider.open(Stream(20, 40.0))
    gateway = provider.client()
    post(gateway, first)
    gateway.answer()
    first.wait("ended")
    post(gateway, second, stream=True)
    second.wait("tokens", 2)
    first.shut()
    assert gateway.answer()[2].count(b"text_delta") == 20
    assert second.wait("ended")[0].data["tokens"] == 20
    # And the other way round: what it carries now is cut with its own account.
    third = provider.open(ENDLESS)
    post(gateway, third, stream=True)
    third.wait("tokens", 2)
    third.shut()
    assert b"message_stop" not in gateway.rest()


def test_a_closed_meter_leaves_neither_task_nor_socket(provider: Provider) -> None:
    run = provider.open(ENDLESS)
    clients = [provider.client() for _ in range(10)]
    for client in clients[:5]:
        post(client, run, stream=True)
    run.wait("tokens", 10)
    assert provider.left(), "while it serves it has sockets"
    provider.inside(provider.meter.close)
    for client in clients:
        client.rest()
    with pytest.raises(ConnectionRefusedError):
        provider.client()
    # The fixture looks for what is left.


def test_a_meter_that_is_closed_at_once_has_closed_its_sockets(provider: Provider) -> None:
    """Before its loop came to serve them."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)

    def both() -> None:
        provider.meter.listen([listener])
        provider.meter.close()

    provider.inside(both)
    provider.inside(lambda: None)
    assert listener.fileno() == -1


def test_two_accounts_know_nothing_of_each_other(provider: Provider) -> None:
    one, two = provider.open(Background(1_000_000, 10.0)), provider.open(Background(1_000_000, 10.0))
    client = provider.client()
    post(client, one, RESPONSES, background=True)
    identifier = client.json()["id"]
    client.ask(f"/{two.key}{RESPONSES}/{identifier}/cancel")
    assert client.answer()[0] == 404
    assert one.summary()["open"] == ["r1"]
    assert two.summary() == {"requests": 0, "tokens": 0, "open": [], "disconnected": 0}


@pytest.mark.parametrize("key", ["", "a/b"])
def test_a_key_that_is_no_segment_is_refused(provider: Provider, key: str) -> None:
    with pytest.raises(ValueError, match="one segment"):
        provider.inside(lambda: provider.meter.open(key, lambda *_: None, Script((Text(),))))
