"""The meter: a provider on loopback, which answers as it is told and counts what it gives out.

Any key is taken; none is looked at. Whose request it is says the first segment of its path.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_cancelcontract.answers import Answer, Asked, Background, Failure, Stream, Text, ToolCall
from pytest_cancelcontract.recorder.meter import tools
from pytest_cancelcontract.recorder.meter.account import Account, Choose, Job, Note
from pytest_cancelcontract.recorder.meter.connection import Connection, Head
from pytest_cancelcontract.recorder.meter.delivery import Headers, Streamed, Whole
from pytest_cancelcontract.recorder.meter.pieces import MadeUp, Pieces, Words
from pytest_cancelcontract.recorder.meter.routes import Route, route
from pytest_cancelcontract.recorder.meter.wires import openai_responses
from pytest_cancelcontract.recorder.meter.wires.wire import BadRequest, Reply, Request, Wire, compact
from pytest_cancelcontract.recorder.meter.work import Work

ASIDE = Text("Done.")
"""What a side request for text is answered with."""
MODEL = "meter"
BYTES_A_TOKEN = 4
JSON: Headers = [("content-type", "application/json")]
EVENTS: Headers = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache")]


class Meter:
    """All accounts of one recorder, behind the sockets that it is given."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._accounts: dict[str, Account] = {}
        self._shut: set[str] = set()
        self._connections: set[Connection] = set()
        self._listeners: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Serve on bound, listening, non-blocking stream sockets; they are closed with the meter."""
        for one in sockets:
            self._listeners.append(one)
            task = self._loop.create_task(self._serve(one))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    def open(self, key: str, note: Note, choose: Choose) -> Account:
        """Begin a run's account; its base URL ends with ``/key``.

        Raises:
            ValueError: the key is no segment of a path, or was used before.
        """
        if not key or "/" in key or key in self._accounts or key in self._shut:
            raise ValueError("an account's key must be one segment of a path that was not used before")
        account = self._accounts[key] = Account(self._loop, note, choose)
        return account

    def shut(self, key: str) -> None:
        """End an account: what is open is closed, later requests get 410, and nothing of it is noted any more."""
        account = self._accounts.pop(key, None)
        if account is not None:
            self._shut.add(key)
            account.shut()

    def close(self) -> None:
        """End everything: accounts, connections and sockets."""
        self._is_closed = True
        for key in list(self._accounts):
            self.shut(key)
        for task in self._starting:
            task.cancel()
        for server in self._servers:
            server.close()
        for listener in self._listeners:
            listener.close()  # of a server that did not come to be
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, listener: socket.socket) -> None:
        # In two steps, so that the server is known before the first wait: a close that comes in between must find it.
        server = await self._loop.create_server(lambda: Connection(self._loop, self), sock=listener, start_serving=False)
        self._servers.append(server)
        await server.start_serving()

    # --- What the connections say -------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """A client has come."""
        self._connections.add(connection)
        if self._is_closed:
            connection.abort()

    def left(self, connection: Connection) -> None:
        """A connection is closed."""
        self._connections.discard(connection)

    def account_of(self, head: Head) -> Account | None:
        """Whose request it is."""
        return self._accounts.get(head.target.key)

    def asked(self, connection: Connection, head: Head, body: bytes) -> None:
        """Answer a request; what goes wrong in here is an answer, too."""
        account = self.account_of(head)
        if account is None:
            is_shut = head.target.key in self._shut
            why = "this account is closed" if is_shut else "no such account: the first segment of the path is not known here"
            connection.refuse(410 if is_shut else 404, JSON, _plain_failure(why))
            return
        connection.carry(account)
        asking = _Asking(connection, account, head, body, time.monotonic())
        try:
            asking.answer()
        except BadRequest as error:
            asking.refuse(400, str(error))
        except Exception as error:  # of the script, or our own fault: the client is told, and the recorder goes on
            asking.refuse(500, f"the meter cannot answer: {type(error).__name__}: {error}")


class _Asking:
    """One request, on its way to its work."""

    def __init__(self, connection: Connection, account: Account, head: Head, body: bytes, at_s: float) -> None:
        self._connection = connection
        self._account = account
        self._head = head
        self._body = body
        self._at_s = at_s
        self._route = route(head.method, head.target)

    def answer(self) -> None:
        """Answer at once, or begin a work that does."""
        found = self._route
        if found is None:
            self.refuse(404, "the meter answers no such call")
        elif found.act == "generate" and found.wire is not None:
            self._generate(found, found.wire)
        elif found.act == "count" and found.wire is not None:
            self._request()
            self._aside(found.wire.name, found.wire.counted(self._input_tokens()))
        elif found.act == "hello":
            self._aside("other", b"", [])
        elif found.act == "models":
            self._aside("other", compact(_models("client_version" in self._head.target.fields)))
        else:
            self._of_job(found)

    def refuse(self, status: int, why: str) -> None:
        """Answer with an error that is noted, in the form of the format that was asked in."""
        wire = self._route.wire if self._route else None
        side = self._head.is_aside(self._route)
        self._account.refuse(self._at_s, why, status, side=side, **self._head.facts(wire.name if wire else "other", Request()))
        self._connection.refuse(status, JSON, wire.failure(status, why, None) if wire else _plain_failure(why))

    # --- Requests on the side -----------------------------------------------------------------------------------------

    def _aside(self, wire: str, body: bytes, headers: Headers = JSON, status: int = 200) -> None:
        work = self._account.begin(self._at_s, 0, None, side=True, **self._head.facts(wire, Request()))
        self._deliver(work, Whole(self._connection, status, self._named(work, headers), lambda: body))

    def _of_job(self, found: Route) -> None:
        job = self._account.jobs.get(found.identifier)
        if job is None:
            self.refuse(404, "there is no background response of this id")
            return
        if found.act == "cancel" and not job.work.is_over:
            job.is_cancelled = True
            job.work.cancel()
        self._aside(openai_responses.WIRE.name, openai_responses.standing(job.reply, _status(job)))

    # --- Main requests ------------------------------------------------------------------------------------------------

    def _generate(self, found: Route, wire: Wire) -> None:
        request = self._request()
        model = found.model if found.model is not None else request.model
        stream = found.stream if found.stream is not None else request.stream
        asked = Asked(
            wire=wire.name,
            model=model,
            stream=stream,
            background=request.background,
            offers_tools=tuple(one.name for one in request.offers),
            tool_results=request.tool_results,
            previous=self._account.previous,
        )
        answer, is_held = self._account.choose(asked)
        # A request without tools where a tool call is next: a title or a summary, which must not eat the script.
        is_word = isinstance(answer, ToolCall) and not asked.offers_tools
        answer, is_held = (ASIDE, False) if is_word else (answer, is_held)
        # Housekeeping comes first. Who asks so once the run is at work may be what was left of it, and spends.
        is_side = is_word and not self._account.has_called
        if isinstance(answer, Background) and not request.background:
            raise BadRequest("the script answers with background work, which only OpenAI responses with background=true can be")
        if request.background and stream:
            raise BadRequest("a background response is not streamed here: poll it")
        reply = self._reply(answer, request, model)
        per_s = answer.tokens_per_s if isinstance(answer, (Text, Stream, Background)) else None
        facts = self._head.facts(wire.name, request) | {"model": model, "stream": stream}
        work = self._account.begin(self._at_s, reply.tokens, per_s, side=is_side, takes=not is_word, **facts)
        self._account.has_called |= isinstance(answer, ToolCall)
        if isinstance(answer, Failure):
            self._deliver(work, self._failure(work, wire, answer), is_held)
        elif request.background:
            self._background(work, reply, is_held)
        elif stream:
            is_events = not found.is_array
            headers = self._named(work, EVENTS if is_events else JSON)
            self._deliver(work, Streamed(self._connection, headers, wire, reply), is_held)
        else:
            self._deliver(work, Whole(self._connection, 200, self._named(work, JSON), lambda: wire.whole(reply)), is_held)

    def _background(self, work: Work, reply: Reply, is_held: bool) -> None:
        job = self._account.jobs[openai_responses.identifier(reply)] = Job(work, reply)
        self._start(work, is_held)
        body = openai_responses.standing(reply, _status(job))
        self._connection.begin(200, [*self._named(work, JSON), ("content-length", str(len(body)))])
        self._connection.write(body)
        self._connection.end()
        self._connection.release()

    def _deliver(self, work: Work, delivery: Whole | Streamed, is_held: bool = False) -> None:
        work.attach(delivery)
        self._connection.work = work
        self._start(work, is_held)

    def _start(self, work: Work, is_held: bool) -> None:
        if is_held:
            self._account.hold(work)
        else:
            work.start()

    def _failure(self, work: Work, wire: Wire, answer: Failure) -> Whole:
        headers = [*self._named(work, JSON)]
        if answer.retry_after_s is not None:
            # The standard's header takes whole seconds; some clients read the vendors' finer one first.
            headers.append(("retry-after", str(math.ceil(answer.retry_after_s))))
            headers.append(("retry-after-ms", str(round(answer.retry_after_s * 1000))))
        body = wire.failure(answer.status, answer.message, answer.retry_after_s)
        return Whole(self._connection, answer.status, headers, lambda: body)

    # --- What is read and made ----------------------------------------------------------------------------------------

    def _request(self) -> Request:
        if self._head.encoding not in ("", "identity"):
            raise BadRequest("the meter reads no compressed requests")
        try:
            body = json.loads(self._body)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, Mapping):
            raise BadRequest("the body is no JSON object")
        assert self._route is not None and self._route.wire is not None
        return self._route.wire.read(body)

    def _reply(self, answer: Answer, request: Request, model: str) -> Reply:
        pieces, call = _pieces(answer), None
        if isinstance(answer, ToolCall):
            call = tools.call_for(answer.command, answer.tool, request.offers)
        return Reply(
            number=self._account.next_number,
            model=model,
            created_s=int(time.time()),
            pieces=pieces,
            tokens=len(pieces) + (len(Words(call.arguments_json())) if call else 0),
            call=call,
            input_tokens=self._input_tokens(),
            wants_usage=request.wants_usage,
            background=request.background,
            is_array=self._route is not None and self._route.is_array,
        )

    def _input_tokens(self) -> int:
        return max(1, len(self._body) // BYTES_A_TOKEN)

    def _named(self, work: Work, headers: Headers) -> Headers:
        """With the request's id, in both of the vendors' headers for it."""
        return [*headers, ("request-id", work.request), ("x-request-id", work.request)]


def _pieces(answer: Answer) -> Pieces:
    if isinstance(answer, (Text, ToolCall)):
        return Words(answer.text)
    return MadeUp(answer.tokens) if isinstance(answer, (Stream, Background)) else MadeUp(0)


def _status(job: Job) -> openai_responses.Status:
    if job.is_cancelled:
        return "cancelled"
    if job.work.is_over:
        return "completed"
    return "in_progress" if job.work.is_started else "queued"


def _plain_failure(why: str) -> bytes:
    return compact({"error": {"message": why}})


def _models(is_for_codex: bool) -> dict[str, Any]:
    """A list of one, in the shapes that the vendors' clients read; codex, which wants far more of a model, keeps its own where none is."""
    created = {"created": 0, "created_at": "1970-01-01T00:00:00Z"}
    one = {"id": MODEL, "object": "model", "owned_by": MODEL, "type": "model", "display_name": MODEL} | created
    other = {"name": f"models/{MODEL}", "displayName": MODEL, "supportedGenerationMethods": ["generateContent", "countTokens"]}
    ends = {"has_more": False, "first_id": MODEL, "last_id": MODEL}
    return {"object": "list", "data": [one], "models": [] if is_for_codex else [other]} | ends
