"""Drive an adapter that lives in a process of its own, one such host a drill.

A wrapper that lives in Python can kill the process that it lives in (``killpg`` of its own group, say), hold its interpreter, or be
killed and frozen on purpose; in a host none of it reaches pytest. The host is started by the recorder, as a wrapper is, so
nothing of it is left whatever happens. What is said between the two is plain data; nothing here calls the adapter.
"""

from __future__ import annotations

import base64
import itertools
import os
import secrets
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.adapters.coroutine import CoroutineAdapter
from pytest_cancelcontract.adapters.driver import OPTIONAL, Answer, Call, Driver, Hooks, Returned, nothing, one_line, refuse_non_adapter
from pytest_cancelcontract.adapters.function import CallableAdapter
from pytest_cancelcontract.adapters.helpers import send_signal
from pytest_cancelcontract.adapters.line import LINE_LOST, TOKEN, Line, answer_from_dict, listen, run_as_dict
from pytest_cancelcontract.adapters.parcel import pack
from pytest_cancelcontract.adapters.protocol import Adapter
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder.process_table import is_stopped
from pytest_cancelcontract.run import Run, Spawned

STATUS_WITHIN_S = 2.0
"""How long it may take the recorder to see the end of a host whose line has ended."""
FREEZES_SOON_S = 0.001
_BY_ITSELF = "; had it not been hosted, that would have been pytest"
_DISRUPTIONS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}


class Hosted:
    """Any adapter, to be driven in a process of its own: ``cancel_contract.check(Hosted(TeamAdapter))``.

    Each drill gets a new process, with a copy of the adapter as it is when the drill is made, in which its methods are called and its
    ``close`` when the drill is over. A class is called there, without arguments.

    Args:
        adapter: an object that can be pickled (cloudpickle takes lambdas and closures too), or a class.
    Raises:
        TypeError: it has no ``start`` or no ``cancel``.
    """

    def __init__(self, adapter: Adapter | type[Adapter]) -> None:
        if not isinstance(adapter, type):
            refuse_non_adapter(adapter)
        elif not all(callable(getattr(adapter, name, None)) for name in ("start", "cancel")):
            raise TypeError(f"an adapter needs start(run) and cancel(handle); the class {adapter.__name__} lacks one")
        elif isinstance(vars(adapter).get("capabilities"), property):
            raise TypeError(f"what {adapter.__name__} can do depends on how it is made; write Hosted({adapter.__name__}(…))")
        self.adapter = adapter

    def start(self, _run: Run, /) -> Any:
        """Not to be called: a hosted adapter is driven from outside."""
        raise TypeError("a hosted adapter is started in its host only; give Hosted(…) itself to the drill")

    def cancel(self, _handle: Any, /) -> Any:
        """Not to be called: a hosted adapter is driven from outside."""
        raise TypeError("a hosted adapter is cancelled in its host only; give Hosted(…) itself to the drill")


def driver_for(adapter: Adapter) -> Driver:
    """What drives this adapter, in this process or in one of its own.

    Raises:
        TypeError: it is no adapter, or cannot go to a process of its own.
    """
    if isinstance(adapter, Hosted):
        return HostedDriver(adapter.adapter, way_out="drive it without Hosted")
    if isinstance(adapter, (CoroutineAdapter, CallableAdapter)) and adapter.hosted:
        return HostedDriver(adapter, way_out="give hosted=False, and it is driven in pytest's own process")
    return Driver(adapter)


class HostFailed(RuntimeError):
    """The process that hosts an adapter could not be brought up, or is gone."""


class HostedDriver(Driver):
    """A driver whose adapter lives in other processes: one for each drill, in which all runs of that drill are.

    Raises:
        CannotHost: the adapter cannot be pickled.
    """

    def __init__(self, adapter: Adapter | type[Adapter], *, way_out: str) -> None:
        self._set_up(adapter)
        self._parcel = base64.b64encode(pack(adapter, way_out=way_out)).decode()
        self._hosts: dict[Path, Future[Host]] = {}

    def capabilities(self) -> tuple[str, ...]:
        """Those of the adapter, and that its wrapper can be killed and frozen: with the host, where the wrapper lives in it."""
        own = super().capabilities()
        by_host = () if "exit" in own else ("disrupt", "recover")
        return tuple(name for name, _ in OPTIONAL if name in {*own, *by_host}) + tuple(name for name in own if name not in dict(OPTIONAL))

    def forget(self, handle: int) -> None:
        """Let go of a run; with the last one of a drill, of its host."""
        with self._lock:
            host, there = self._handles.get(handle, (None, -1))
        super().forget(handle)
        if host is not None:
            host.forget(there)
            with self._lock:
                is_needed = any(other is host for other, _ in self._handles.values())
            if not is_needed:
                self._drop(host)

    def close(self, *, within_s: float = 30.0) -> Answer | None:
        """Let go of all hosts; each closes its adapter before it leaves. Safe to call twice."""
        with self._lock:
            made = [one.result() for one in self._hosts.values() if one.done() and one.exception() is None]
        ends_s = time.monotonic() + within_s
        for host in made:
            self._drop(host)
        for host in made:
            host.until_gone(ends_s - time.monotonic())
        return None

    # ------------------------------------------------------------------ inside a call

    def _make(self, call: Call, hooks: Hooks) -> None:
        question = call.question
        if question.method == "start":
            threading.Thread(target=self._start, args=(call, hooks), name="cancelcontract-start", daemon=True).start()
            return
        with self._lock:
            host, there = self._handles.get(question.handle or 0, (None, -1))
        if host is None:
            error = LookupError(f"no run is known by the handle {question.handle!r}")
            call.resolve(Answer(call.asked_s, time.monotonic(), error=one_line(error)))
        elif question.method in {"disrupt", "recover"} and question.method not in super().capabilities():
            threading.Thread(target=host.disrupt, args=(call, hooks), name=f"cancelcontract-{question.method}", daemon=True).start()
        else:
            host.ask(call, hooks, there)

    def _start(self, call: Call, hooks: Hooks) -> None:
        run = call.question.run
        assert run is not None  # for the type checker: that is what a start is
        try:
            host = self._host_of(run, call)
        except Exception as error:  # the recorder may be gone, the disk full
            call.resolve(_failed(call, error))
        else:
            host.start(call, hooks, run, keep=lambda there: self._keep((host, there)))

    def _host_of(self, run: Run, call: Call) -> Host:
        """The host of the run's drill; the first to ask brings it up."""
        with self._lock:
            known = self._hosts.get(run.folder)
            coming = self._hosts.setdefault(run.folder, Future())
        if known is not None:
            return known.result(timeout=max(0.0, call.asked_s + call.within_s - time.monotonic()))
        try:
            coming.set_result(Host.bring_up(run, self._parcel, call.asked_s + call.within_s))
        except BaseException as error:
            with self._lock:
                del self._hosts[run.folder]
            coming.set_exception(error)
        return coming.result()

    def _drop(self, host: Host) -> None:
        with self._lock:
            self._hosts.pop(host.folder, None)
        host.send_away()


def _failed(call: Call, error: BaseException) -> Answer:
    return Answer(call.asked_s, time.monotonic(), error=one_line(error), is_own_error=isinstance(error, HostFailed))


class Host:
    """One process with an adapter in it, and what is asked of it."""

    def __init__(self, run: Run, process: Spawned, pidfd: int, line: Line) -> None:
        self.process = process
        self.folder = run.folder
        self._is_disrupted = False
        self._run = run
        self._pidfd = pidfd
        self._line = line
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._asked: dict[int, _Asked] = {}
        self._runs: dict[str, Run] = {}
        self._why_not = ""
        self._trace = ""
        self._gone = threading.Event()

    @classmethod
    def bring_up(cls, run: Run, parcel: str, until_s: float) -> Host:
        """Have the recorder start a host for the run's drill, and give it the adapter.

        Raises:
            HostFailed: it ended first, or did not call back in time.
            OSError: it could not be started.
        """
        token = secrets.token_hex(16)
        listener, address = listen(run.folder)
        with listener:
            search = os.pathsep.join(path for path in sys.path if path)
            argv = [sys.executable, "-m", "pytest_cancelcontract.adapters.host", address]
            process = run.spawn_host(argv, cwd=Path.cwd(), env={**os.environ, "PYTHONPATH": search, TOKEN: token})
            pidfd = os.pidfd_open(process.pid)  # its identity is certain: the recorder keeps it unreaped
            line = _accept(listener, pidfd, token, until_s)
        if line is None:
            os.close(pidfd)
            status = run.host_status(process, 0.0)
            raise HostFailed(f"the process that hosts the adapter {_ended(status) if status is not None else 'did not call back'}")
        host = cls(run, process, pidfd, line)
        line.say(say="begin", path=sys.path, python_path=os.environ.get("PYTHONPATH"), adapter=parcel)
        threading.Thread(target=host._listen, name="cancelcontract-host", daemon=True).start()
        return host

    # ------------------------------------------------------------------ what is asked

    def start(self, call: Call, hooks: Hooks, run: Run, *, keep: Any) -> None:
        """Ask for the start of a run; ``keep`` makes a handle of the one that is known there."""
        with self._lock:
            self._runs[run.id] = run
        self._ask(_Asked(call, hooks, keep), run=run_as_dict(run))

    def ask(self, call: Call, hooks: Hooks, handle: int) -> None:
        """Ask about a run, by the handle that is known there."""
        self._ask(_Asked(call, hooks), handle=handle)

    def disrupt(self, call: Call, hooks: Hooks) -> None:
        """Kill or freeze the process, or thaw it; comes back when it is so."""
        question = call.question
        number = signal.SIGCONT if question.method == "recover" else _DISRUPTIONS[question.how or "kill"]
        self._is_disrupted = True
        try:
            hooks.before()
            send_signal(self.process.pid, self.process.start, number)
            while number is signal.SIGSTOP and not is_stopped(Identity(self.process.pid, self.process.start)) and not self.is_gone:
                time.sleep(FREEZES_SOON_S)  # the kernel stops each thread when it comes by, and there is no event for it
        except Exception as error:
            hooks.after(Returned.now(error))
            call.resolve(_failed(call, error))
        else:
            hooks.after(Returned.now())
            call.resolve(Answer(call.asked_s, time.monotonic()))

    @property
    def is_gone(self) -> bool:
        """It can answer nothing any more."""
        return self._gone.is_set()

    def forget(self, handle: int) -> None:
        """Nothing more will be asked about this run."""
        self._line.say(say="forget", handle=handle)

    def send_away(self) -> None:
        """Have it close its adapter and leave, if it still can; nobody waits for it."""
        self._line.say(say="leave")

    def until_gone(self, at_most_s: float) -> bool:
        """Wait until the process has ended, or hung up."""
        return self._gone.wait(max(0.0, at_most_s))

    def _ask(self, asked: _Asked, **about: Any) -> None:
        call, question = asked.call, asked.call.question
        with self._lock:
            number = next(self._numbers)
            is_gone = bool(self._why_not)
            if not is_gone:
                self._asked[number] = asked
        if is_gone:
            asked.fail(self._why_not, self._trace)
            return
        call.cancel_by(lambda: self._line.say(say="give-up", number=number))
        # The clock is the same for all processes of a machine, so a deadline is one there as well.
        until_s = call.asked_s + call.within_s
        about = {"method": question.method, "how": question.how, "until_s": until_s, "is_noted": asked.is_noted_here, **about}
        self._line.say(say="question", number=number, **about)

    # ------------------------------------------------------------------ what is heard

    def _listen(self) -> None:
        try:
            for message in self._line.messages(self._pidfd):
                self._hear(message)
        finally:
            # Also where something cannot be understood: nobody shall wait for what does not come.
            self._end()

    def _hear(self, message: Mapping[str, Any]) -> None:
        say, number = message["say"], message.get("number", 0)
        if say == "answer":
            asked = self._take(number)
            if asked is not None:
                asked.came_back(message)
        elif say == "about":
            with self._lock:
                asked = self._asked.get(number)
            self._line.say(say="go", number=number, go=asked is not None and asked.is_let())
        elif say == "failed":
            self._why_not, self._trace = message["error"], message["trace"]
        else:
            # A command may take its time, and the recorder's answer some: nobody's answer shall wait for it.
            threading.Thread(target=self._carry, args=(message,), name=f"cancelcontract-{say}", daemon=True).start()

    def _carry(self, message: Mapping[str, Any]) -> None:
        """Do what the adapter asked of its run (``spawn``, ``command``), and tell the host what came of it."""
        argv, cwd, env = message["argv"], Path(message["cwd"]), message["env"]
        try:
            with self._lock:
                run = self._runs[message["run"]]
            if message["say"] == "spawn":
                spawned = run.spawn(argv, cwd=cwd, env=env)
                told: dict[str, Any] = {"pid": spawned.pid, "start": spawned.start, "output": str(spawned.output)}
            else:
                ran = run.command(argv, cwd=cwd, env=env, at_most_s=message["at_most_s"])
                told = {"status": ran.status, "output": str(ran.output), "began_s": ran.began_s}
        except Exception as error:
            told = {"error": str(error), "is_spawn": isinstance(error, OSError)}
        self._line.say(say="told", number=message["number"], told=told)

    def _take(self, number: int) -> _Asked | None:
        with self._lock:
            return self._asked.pop(number, None)

    def _end(self) -> None:
        """The host is gone, or has hung up: whatever is under way is answered, and so is all that is asked later."""
        why_not = self._why_not or f"the process that hosts the adapter {self._how_it_ended()}"
        with self._lock:
            self._why_not = why_not
            under_way, self._asked = list(self._asked.values()), {}
        for asked in under_way:
            asked.fail(why_not, self._trace)
        self._gone.set()
        self._line.let_go()
        os.close(self._pidfd)

    def _how_it_ended(self) -> str:
        try:
            status = self._run.host_status(self.process, STATUS_WITHIN_S)
        except Exception:  # the drill is over, or the recorder gone
            return "has ended"
        if status is None:
            return "has hung up"
        return _ended(status) if self._is_disrupted else f"{_ended(status)}{_BY_ITSELF if status < 0 else ''}"


class _Asked:
    """A call that a host was asked to make."""

    def __init__(self, call: Call, hooks: Hooks, keep: Any = None) -> None:
        self.call = call
        self._hooks = hooks
        self._keep = keep
        self._is_noted = False
        self.is_noted_here = hooks.before is not nothing

    def is_let(self) -> bool:
        """The call is about to be made: note that here, and say whether it may be."""
        self._is_noted = True
        try:
            self._hooks.before()
        except Exception as error:
            self.call.resolve(_failed(self.call, error))
            return False
        return True

    def came_back(self, message: Mapping[str, Any]) -> None:
        """It has an answer."""
        if message["returned"] is not None:
            self._hooks.after(Returned(**message["returned"]))
        answer = answer_from_dict(message["answer"])
        if answer.handle is not None:
            answer = replace(answer, handle=self._keep(answer.handle))
        self.call.resolve(answer)

    def fail(self, why_not: str, trace: str) -> None:
        """It can have no answer any more; a button that was to be pressed was pressed, and nothing came of it."""
        if not self._is_noted and not self.is_let():
            return
        at_s = time.monotonic()
        self._hooks.after(Returned(at_s, why_not, is_clean=False))
        self.call.resolve(Answer(self.call.asked_s, at_s, error=why_not, trace=trace, is_own_error=not trace))


def _accept(listener: socket.socket, pidfd: int, token: str, until_s: float) -> Line | None:
    """The line of the host that was started; None where it ended, or the time is up, before it called."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(pidfd, select.POLLIN)
    while (left_s := until_s - time.monotonic()) > 0:
        ready = {number for number, _ in poll.poll(left_s * 1000)}
        if listener.fileno() in ready:
            link, _ = listener.accept()
            line = Line(link)
            if next(line.messages(pidfd), {}).get("token") == token:
                return line
            line.let_go()
        elif pidfd in ready:
            return None
    return None


def _ended(status: int) -> str:
    if status == LINE_LOST:
        return f"ended with status {status}, since it found its descriptors closed: by the wrapper, which lives in it"
    if status >= 0:
        return f"ended with status {status}"
    number = -status
    return f"was ended by {signal.Signals(number).name if number in set(signal.Signals) else f'signal {number}'}"
