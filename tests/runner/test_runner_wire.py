"""The hand-written encoder says what json would, and connections go to the first address that answers."""

from __future__ import annotations

import contextlib
import errno
import json
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from uncooperative_runner import wire
from uncooperative_runner.wire import NoRecorder, connect, encode, is_heard


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -12,
        1 << 70,
        1.5,
        -0.0,
        1e-9,
        12345.678901,
        "",
        "plain",
        'quote " backslash \\ slash /',
        "newline \n tab \t return \r bell \a null \0 delete \x7f",
        "é, 漢字, \u2028",
        "beyond 16 bits: 😀",
        "undecodable: " + b"\xff\xfe".decode("utf-8", "surrogateescape"),
        [],
        {},
        [1, [2, ["three", None]], {"four": 5.0}],
        {"é\n": {"nested": [True]}},
    ],
    ids=repr,
)
def test_what_is_encoded_is_read_back_by_json(value: object) -> None:
    text = encode(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert "\n" not in text


def test_numbers_that_json_lacks_become_null() -> None:
    assert encode([float("inf"), float("-inf"), float("nan")]) == "[null,null,null]"


def test_enums_and_tuples_are_encoded_as_what_they_are() -> None:
    assert encode({"signal": signal.SIGTERM, "pair": (1, 2)}) == '{"signal":15,"pair":[1,2]}'


def test_what_has_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON for a bytes"):
        encode(b"bytes")


def test_connect_takes_the_first_address_that_answers(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(str(tmp_path / "stale"))
    stale.close()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        connection, used = connect([f"unix:{tmp_path}/missing", f"unix:{tmp_path}/stale", "abstract:cc-nobody-here", address])
        assert used == address
        assert not connection.get_inheritable()
        connection.close()


def test_where_very_many_come_at_once_each_waits_for_its_turn(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        addresses = [f"unix:{tmp_path}/s"]
        waiting = [connect(addresses)[0]]
        with pytest.raises(BlockingIOError), socket.socket(socket.AF_UNIX) as one_too_many:
            one_too_many.setblocking(False)
            one_too_many.connect(str(tmp_path / "s"))
        with ThreadPoolExecutor() as pool:
            late = [pool.submit(connect, addresses) for _ in range(4)]
            accepted = [listener.accept()[0] for _ in range(5)]
            waiting += [one.result()[0] for one in late]
        for connection in (*waiting, *accepted):
            connection.close()


def test_a_recorder_is_heard_as_long_as_it_listens(tmp_path: Path) -> None:
    addresses = ["unix:/nowhere/at/all", f"unix:{tmp_path}/s"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        assert is_heard(addresses)
        connection, _ = listener.accept()
        assert connection.recv(1) == b""
        connection.close()
    assert not is_heard(addresses)


def test_a_recorder_whose_queue_is_full_may_still_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ended for that would leave a drill in which it was to be found alive."""
    monkeypatch.setattr(wire, "CONNECT_WITHIN_S", 0.05)
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as waiting:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        waiting.enter_context(socket.socket(socket.AF_UNIX)).connect(str(tmp_path / "s"))
        with pytest.raises(NoRecorder):
            connect([f"unix:{tmp_path}/s"])
        assert is_heard(["unix:/nowhere/at/all", f"unix:{tmp_path}/s"])


def test_a_process_that_can_open_no_socket_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_family: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket, "socket", none)
    assert is_heard(["unix:/nowhere/at/all"])


def test_without_an_answer_each_address_is_given_with_its_reason(tmp_path: Path) -> None:
    addresses = [f"unix:{tmp_path}/missing", "unix:" + "long/" * 50, "tcp:127.0.0.1:no-port", "tcp:127.0.0.1:99999"]
    with pytest.raises(NoRecorder) as refused:
        connect(addresses)
    for address in addresses:
        assert address in str(refused.value)
