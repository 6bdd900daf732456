"""``python -m pytest_cancelcontract.adapters.host``: the process that an adapter lives in, where it is hosted; never started by hand.

Its answers are those of a plain :class:`~pytest_cancelcontract.adapters.driver.Driver`. It keeps the dispositions that pytest has, so
that a signal which would have ended pytest ends it. It leaves when it is told to, when its driver is gone, or when its drill is over.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pytest_cancelcontract.adapters.coroutine import CoroutineAdapter, live_in
from pytest_cancelcontract.adapters.driver import Answer, Call, Driver, Question, Returned, one_line
from pytest_cancelcontract.adapters.line import LINE_LOST, TOKEN, Line, answer_as_dict, call, run_from_dict
from pytest_cancelcontract.adapters.parcel import unpack
from pytest_cancelcontract.run import Ran, Run, Spawned

CLOSE_WITHIN_S = 0.8
"""How long the adapter's ``close`` may take; a little later the recorder ends the host by force."""
LOOP_IS_LEFT_WITHIN_S = 0.1
"""How long the main thread may take to come back from a loop that has ended."""
ASK_SLACK_S = 60.0
"""How long an answer of the other side may take, beyond what was asked for."""


class Refused(RuntimeError):
    """The other side did not let a call be made, or is gone."""


class Server:
    """One adapter and its driver, and the line to the process that drives them."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._driver: Driver | None = None
        self._calls: dict[int, Call] = {}
        self._returned: dict[int, Returned] = {}
        self._asked: dict[int, Future[Any]] = {}
        self._next = 1
        self._is_dismissed = False
        self._needs_main_thread = False

    def serve(self, leash: int) -> int:
        """Answer until it is time to leave, and return the status to leave with: 0, unless something went wrong or closed the line."""
        messages = self._line.messages(leash)
        begin = next(messages, None)
        if begin is not None and not self._begin(begin):
            return 1
        if self._needs_main_thread:
            return self._lend_main_thread(messages, leash)
        return self._serve(messages, leash)

    def _serve(self, messages: Iterator[Mapping[str, Any]], leash: int) -> int:
        for message in messages:
            if message["say"] == "leave":
                self._is_dismissed = True
                break
            self._hear(message)
        self._leave()
        return 0 if self._is_dismissed or _has_ended(leash) else LINE_LOST

    def _lend_main_thread(self, messages: Iterator[Mapping[str, Any]], leash: int) -> int:
        """Let the wrapper's loop have this thread, in which alone signals can be handled, and answer in another one."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # What interrupts pytest is nothing that a coroutine could catch.
            signal.signal(signal.SIGINT, lambda _number, _frame: _end_interrupted())
        loops: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        live_in(loops.put)
        is_out, status = threading.Event(), [1]

        def serve() -> None:
            try:
                status[0] = self._serve(messages, leash)
            except BaseException:
                traceback.print_exc()
            loops.put(None)
            if not is_out.wait(LOOP_IS_LEFT_WITHIN_S):  # blocked by the wrapper
                for output in (sys.stdout, sys.stderr):
                    with contextlib.suppress(OSError):
                        output.flush()
                os._exit(status[0])

        threading.Thread(target=serve, name="cancelcontract-line", daemon=True).start()
        while (live := loops.get()) is not None:
            live()
        is_out.set()
        return status[0]

    # ------------------------------------------------------------------ what is heard

    def _begin(self, message: Mapping[str, Any]) -> bool:
        sys.path[:] = message["path"]
        if message["python_path"] is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = message["python_path"]
        try:
            adapter = _unpacked(message["adapter"])
            self._driver = Driver(adapter)
            self._needs_main_thread = isinstance(adapter, CoroutineAdapter)
        except BaseException as error:  # modules that are imported for it may raise anything, pytest's skip included
            failed = f"the adapter cannot be made in a process of its own: {one_line(error)}"
            self._line.say(say="failed", error=failed, trace="".join(traceback.format_exception(error)))
            return False
        return True

    def _hear(self, message: Mapping[str, Any]) -> None:
        say, number = message["say"], message.get("number", 0)
        if say == "question":
            self._answer(number, message)
        elif say == "forget" and self._driver is not None:
            self._driver.forget(message["handle"])
        elif say == "give-up":
            with self._lock:
                given_up = self._calls.get(number)
            if given_up is not None:
                given_up.give_up()
        elif say in {"go", "told"}:
            with self._lock:
                waiting = self._asked.pop(number, None)
            if waiting is not None:
                waiting.set_result(message[say])

    def _answer(self, number: int, message: Mapping[str, Any]) -> None:
        assert self._driver is not None  # for the type checker: what begins is said first
        run = self._run(message["run"]) if "run" in message else None
        question = Question(message["method"], message.get("handle"), run, message["how"])
        try:
            made = self._driver.begin(
                question,
                within_s=message["until_s"] - time.monotonic(),
                before=functools.partial(self._about_to_call, number, message["until_s"]) if message["is_noted"] else None,
                after=functools.partial(self._returned.__setitem__, number),
            )
        except Exception as error:  # a method that is no method
            now = time.monotonic()
            self._say_answer(number, Answer(now, now, error=one_line(error), trace=traceback.format_exc()))
            return
        with self._lock:
            self._calls[number] = made
        made.when_answered(functools.partial(self._say_answer, number))

    def _say_answer(self, number: int, answer: Answer) -> None:
        returned = self._returned.pop(number, None)
        with self._lock:
            self._calls.pop(number, None)
        told = asdict(returned) if returned else None
        self._line.say(say="answer", number=number, answer=answer_as_dict(answer), returned=told)

    # ------------------------------------------------------------------ what is asked of the other side

    def _about_to_call(self, number: int, until_s: float) -> None:
        """The other side notes the press before it is made: what the press does may be seen at once."""
        if not self._ask(number, until_s - time.monotonic(), say="about"):
            raise Refused("the call was not let")

    def _run(self, data: Mapping[str, Any]) -> Run:
        name = str(data["id"])

        def spawn(argv: Sequence[str], cwd: Path, env: Mapping[str, str], _role: str) -> Spawned:
            told = self._carried(0.0, say="spawn", run=name, argv=list(argv), cwd=str(cwd), env=dict(env))
            return Spawned(told["pid"], told["start"], Path(told["output"]))

        def command(argv: Sequence[str], cwd: Path, env: Mapping[str, str], at_most_s: float) -> Ran:
            told = self._carried(at_most_s, say="command", run=name, argv=list(argv), cwd=str(cwd), env=dict(env), at_most_s=at_most_s)
            return Ran(told["status"], Path(told["output"]), told["began_s"])

        return run_from_dict(data, _spawn=spawn, _command=command)

    def _carried(self, takes_s: float, **message: Any) -> Any:
        with self._lock:
            number, self._next = -self._next, self._next + 1  # below those of the questions
        told = self._ask(number, takes_s + ASK_SLACK_S, **message)
        if "error" in told:
            from pytest_cancelcontract.recorder.client import RecorderFailed, SpawnFailed

            raise (SpawnFailed if told["is_spawn"] else RecorderFailed)(told["error"])
        return told

    def _ask(self, number: int, at_most_s: float, /, **message: Any) -> Any:
        waiting: Future[Any] = Future()
        with self._lock:
            self._asked[number] = waiting
        self._line.say(number=number, **message)
        try:
            return waiting.result(timeout=max(0.0, at_most_s))
        except TimeoutError:
            raise Refused("the other side did not answer") from None
        finally:
            with self._lock:
                self._asked.pop(number, None)

    # ------------------------------------------------------------------ the end

    def _leave(self) -> None:
        """Let go of whoever waits, and close the adapter, so that what it holds beyond its drill is let go as well."""
        self._line.hang_up()
        with self._lock:
            waiting, self._asked = list(self._asked.values()), {}
        for one in waiting:
            one.set_exception(Refused("the drill is over"))
        closed = self._driver.close(within_s=CLOSE_WITHIN_S) if self._driver is not None else None
        if closed is not None and closed.error is not None:
            with contextlib.suppress(OSError):  # closed by the adapter, with all the rest
                print(closed.trace or closed.error, file=sys.stderr)


def _has_ended(leash: int) -> bool:
    """Whether its other end was let go; one that was closed in this process is another matter."""
    poll = select.poll()
    poll.register(leash, select.POLLIN)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def _unpacked(adapter: str) -> Any:
    import base64

    made = unpack(base64.b64decode(adapter))
    return made() if inspect.isclass(made) else made


def main() -> int:
    """Call the driver at the address that is given, and serve it."""
    token = os.environ.pop(TOKEN)
    # The recorder holds the other end of our input and lets it go when the drill is over; what is started here must not inherit it.
    leash = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    # What was printed shall be in the file also when a signal ends this process.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    line = call(sys.argv[1])
    sys.argv[1:] = []
    # A fork of the wrapper's must not speak in our name.
    os.register_at_fork(after_in_child=line.let_go)
    line.say(token=token)
    try:
        status = Server(line).serve(leash)
        if status == LINE_LOST:
            # Most likely closed as well, and what cannot be flushed would change the status.
            sys.stdout = sys.stderr = None
        return status
    except KeyboardInterrupt:
        _end_interrupted()
        raise


def _end_interrupted() -> None:
    """It would have interrupted pytest."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
