"""No key gets anywhere: not into a note, not into an answer, an error or a log, and not into the meter's memory."""

from __future__ import annotations

import gc
import logging
import types
from typing import Any

import pytest

from pytest_cancelcontract.answers import Answer, Asked, Background, Failure, HeldUntilPressed, Stream, Text
from tests.meter.provider import Client, Provider, Run

SECRET = "sk-very-secret-0123456789"
HEADERS = [
    f"authorization: Bearer {SECRET}",
    f"x-api-key: {SECRET}",
    f"x-goog-api-key: {SECRET}",
    f"cookie: session={SECRET}",
    f"proxy-authorization: Basic {SECRET}",
]


def holders(*roots: object) -> list[str]:
    """What holds the secret among everything that can be reached from here; code, modules and the tests' own objects are no roads."""
    found: list[str] = []
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType, types.CodeType, logging.Logger, Run, Provider, Client)):
            continue
        seen.add(id(one))
        if isinstance(one, (str, bytes, bytearray, memoryview)):
            text = one if isinstance(one, str) else bytes(one).decode("latin-1")
            found += [f"{type(one).__name__} {text[:200]}"] if SECRET in text else []
        elif isinstance(one, types.FunctionType):
            todo += one.__closure__ or ()  # its globals lead to every module
        else:
            todo += gc.get_referents(one)
    return found


def ask(client: Client, run: Run, path: str, headers: str = "", **body: Any) -> None:
    """A request that has the secret in every place where clients put it."""
    where = f"/{run.key}{path}?key={SECRET}&alt=sse"
    client.ask(where, {"model": "m", "messages": []} | body, headers="".join(f"{line}\r\n" for line in HEADERS) + headers)


def test_the_search_finds_a_secret_in_any_corner() -> None:
    """A search that finds nothing would hold every meter clean."""

    def closure() -> str:
        return kept

    kept = f"Bearer {SECRET}"
    assert holders({"a": [bytearray(kept.encode())]}) and holders(types.SimpleNamespace(a=(closure,)))


@pytest.mark.parametrize(
    ("answer", "path", "body"),
    [
        pytest.param(Stream(1_000_000, 50.0), "/v1/messages", {"stream": True}, id="streaming"),
        pytest.param(Stream(1_000_000, 50.0), "/v1/chat/completions", {}, id="not sent yet"),
        pytest.param(HeldUntilPressed(), "/v1/responses", {}, id="held"),
        pytest.param(Background(1_000_000, 50.0), "/v1/responses", {"background": True}, id="in the background"),
        pytest.param(Text(), "/v1beta/models/g:streamGenerateContent", {}, id="answered"),
        pytest.param(Failure(), "/v1/messages", {}, id="failed"),
    ],
)
def test_no_key_is_kept_or_told(
    provider: Provider, answer: Answer, path: str, body: dict[str, Any], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run = provider.open(answer)
    client = provider.client()
    ask(client, run, path, **body)
    run.wait("request")
    assert provider.inside(lambda: holders(provider.meter, vars(run.account))) == []
    assert SECRET not in repr(run.notes) + repr(run.summary())
    run.press()
    client.link.close()
    assert provider.inside(lambda: holders(provider.meter, vars(run.account))) == []
    run.shut()
    assert SECRET not in repr(run.notes) + caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(f"POST /KEY/v1/nothing?key={SECRET} HTTP/1.1\r\nhost: m\r\ncontent-length: 0\r\n\r\n", id="an unknown call"),
        pytest.param(f"POST /KEY/v1/messages?key={SECRET} HTTP/1.1\r\nhost: m\r\ncontent-length: 0\r\n\r\n", id="no JSON"),
        pytest.param(f"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\nx-api-key : {SECRET}\r\n\r\n", id="a malformed header line"),
        pytest.param(f"POST /KEY/v1/messages HTTP/1.1\r\nhost: m\r\nx-api-key: {SECRET}\0\r\n\r\n", id="a malformed value"),
        pytest.param(f"POST /{SECRET}/v1/messages HTTP/1.1\r\nhost: m\r\ncontent-length: 0\r\n\r\n", id="as an account"),
        pytest.param(f"{SECRET}\r\n\r\n", id="no HTTP"),
    ],
)
def test_no_key_stands_in_an_error(
    provider: Provider, request_: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    run = provider.open(Text())
    client = provider.client()
    client.send(request_.replace("KEY", run.key).encode())
    answer = client.rest().decode()
    assert answer.startswith("HTTP/1.1 4")
    assert SECRET not in answer + repr(run.notes) + caplog.text + "".join(capfd.readouterr())
    assert provider.inside(lambda: holders(provider.meter, vars(run.account))) == []


def test_the_key_of_an_account_stands_in_no_note_and_no_answer(provider: Provider) -> None:
    def choose(asked: Asked) -> Answer:
        return Text(repr(asked))

    run = provider.open(choose=choose, key="account-key-0123")
    client = provider.client()
    ask(client, run, "/v1/messages")
    answers = [client.answer()]
    client.ask(f"/{run.key}/v1/nothing", {})
    answers.append(client.answer())
    run.wait("refused")
    run.shut()
    late = provider.client()
    ask(late, run, "/v1/messages")
    answers.append(late.answer())
    assert [status for status, _, _ in answers] == [200, 404, 410]
    assert run.key not in repr(answers) + repr(run.notes)
