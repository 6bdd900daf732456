"""Spending: requests to the provider that the recorder names, in plain HTTP/1.1 over a socket. A wrapper may stand between as a proxy.

Written out since http.client takes longer to import than the rest of the start.
"""

from __future__ import annotations

import os
import socket
import time

from uncooperative_runner import wire
from uncooperative_runner.notices import Unarmed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from uncooperative_runner.member import Member

PROVIDER = "CANCELCONTRACT_PROVIDER"
"""The variable that names the provider, ``http://host:port/key``; a wrapper that stands between as a proxy gives its own address in it."""
CALL_EVERY_S = 0.2
ANSWERED_WITHIN_S = 10.0
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"


class NoProvider(Exception):
    """Nothing answers as the provider does; the message says why."""


class Spender:
    """The requests of one process. What is open when the process ends is closed by the kernel, and by nothing else."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._addresses, self._path = _where(member)
        self._open: socket.socket | None = None
        self._background = ""

    def begin(self) -> list[dict[str, str]]:
        """Spend as the plan says, from threads of its own; what is proven so. Without a provider nothing is, and that is said.

        Raises:
            Unarmed: the provider answers in a way that no run can spend by.
        """
        member, how = self._member, self._member.options.plan.spends
        if not self._addresses:
            return []
        try:
            told = self._call()
            if how == "background":
                self._background = self._begin_background()
                told = f"background work {self._background} goes on without a connection"
            elif how != "call":
                told = self._hold_open(how)
        except (NoProvider, wire.NoRecorder) as error:
            member.say("not-spending", why=str(error))
            return []
        member.say("spending", how=how)
        if how != "background":
            member.in_thread(self._keep_calling)
        return [{"habit": f"spends by {how}", "proof": told}]

    def end_step(self) -> None:
        """Close the request that is open."""
        if (connection := self._open) is not None:
            self._open = None
            try:
                connection.shutdown(socket.SHUT_RDWR)  # closing alone would not wake the thread that reads it
            except OSError:
                return  # the provider, or a gateway before it, has cut it
            finally:
                connection.close()

    def cancel_background(self) -> None:
        """Have the provider end the background work. Who cannot reach it any more leaves all the same."""
        if self._background:
            try:
                self._exchange(f"{RESPONSES}/{self._background}/cancel", "{}")
            except (NoProvider, wire.NoRecorder) as error:
                self._member.say("not-cancelled", why=str(error))

    def _keep_calling(self) -> None:
        """Call for ever, while nothing else is open; what goes wrong with one call does not keep it from the next."""
        while True:
            time.sleep(CALL_EVERY_S)
            if self._open is not None or self._member.is_quiet or self._member.is_cleaning_up:
                continue
            try:
                self._call()
            except (NoProvider, wire.NoRecorder):
                continue

    def _call(self) -> str:
        self._exchange(MESSAGES, _body("call"))
        return f"a request was answered by {self._addresses[0].partition(':')[0]}"

    def _begin_background(self) -> str:
        answer = self._exchange(RESPONSES, '{"model":"uncooperative/background","background":true,"input":"work"}')
        _, found, rest = answer.replace('": "', '":"').partition('"id":"')
        if not found:
            raise Unarmed("background-request", f"the provider names no work that it has begun: {answer[:200]!r}")
        return rest.partition('"')[0]

    def _hold_open(self, how: str) -> str:
        """Open a request that is answered slowly (``stream``) or not at all for now (``held``), and leave it open."""
        connection = self._send(MESSAGES, _body(how))
        self._open = connection
        if how == "stream":
            connection.settimeout(ANSWERED_WITHIN_S)
            try:
                if not connection.recv(65536):
                    raise NoProvider("the provider hung up on a stream")
                connection.settimeout(None)
            except OSError as error:
                raise NoProvider(f"no stream: {error}") from None
        self._member.in_thread(lambda: self._read_on(connection))
        return "a streamed request is open, and its first token has come" if how == "stream" else "a request is open, and not answered"

    def _read_on(self, connection: socket.socket) -> None:
        try:
            while connection.recv(65536):
                pass
        except OSError:
            return

    def _exchange(self, path: str, body: str) -> str:
        """Send a request and return its answer, head and body."""
        connection = self._send(path, body)
        connection.settimeout(ANSWERED_WITHIN_S)
        received = b""
        try:
            while not _is_whole(received):
                more = connection.recv(65536)
                if not more:
                    break
                received += more
        except OSError as error:
            raise NoProvider(f"no answer: {error}") from None
        finally:
            connection.close()
        answer = received.decode("utf-8", "replace")
        if answer[9:12] != "200":
            raise NoProvider(f"the provider answered {answer.partition(chr(13))[0]!r}")
        return answer

    def _send(self, path: str, body: str) -> socket.socket:
        connection, _ = wire.connect(self._addresses)
        head = (
            f"POST {self._path}{path} HTTP/1.1\r\nhost: provider\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"connection: close\r\nx-attempt: {self._member.attempt}\r\nx-role: {self._member.role}\r\n\r\n"
        )
        try:
            connection.sendall((head + body).encode("ascii"))
        except OSError as error:
            connection.close()
            raise NoProvider(f"the request could not be sent: {error}") from None
        return connection


def begin(member: Member) -> list[dict[str, str]]:
    """Have a process spend from now on; what is proven so."""
    member.spender = Spender(member)
    return member.spender.begin()


def _where(member: Member) -> tuple[Sequence[str], str]:
    """The addresses of the provider, and the path below which it answers for this run."""
    given = os.environ.get(PROVIDER, "")
    scheme, _, rest = given.partition("://")
    place, _, path = rest.rstrip("/").partition("/")
    if not given or f"tcp:{place}" in member.providers:
        # The provider itself, which can be reached in more ways than by TCP.
        return member.providers, f"/{member.options.token}"
    if scheme != "http" or ":" not in place:
        raise Unarmed("spending", f"{PROVIDER} must be http://host:port/path, got {given!r}")
    # A service that was started in an earlier run hands that one's variable on.
    before, _, key = f"/{path}".rpartition("/")
    return [f"tcp:{place}"], f"{before}/{member.options.token if len(key) == len(member.options.token) else key}".rstrip("/")


def _body(kind: str) -> str:
    streams = "true" if kind == "stream" else "false"
    return f'{{"model":"uncooperative/{kind}","stream":{streams},"max_tokens":1000000,"messages":[{{"role":"user","content":"work"}}]}}'


def _is_whole(received: bytes) -> bool:
    """Whether an answer that tells its length has come in full; others end with their connection."""
    head, found, body = received.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line.partition(b":")[2])
    return False
