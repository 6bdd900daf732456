"""The plugin's side of the recorder: start it, ask it, stop it.

One recorder serves a whole pytest process; its questions and answers are JSON objects, a line each, over a socket pair.
Any thread may ask.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_cancelcontract.answers import Script
from pytest_cancelcontract.history import load
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import folders, reaper
from pytest_cancelcontract.recorder.plan import FIRST, Plan
from pytest_cancelcontract.run import Lacking, Ran, Run, Spawned
from pytest_cancelcontract.terms import Terms
from uncooperative_runner.spend import PROVIDER

ANSWER_WITHIN_S = 30.0
"""How long the recorder may take to answer beyond what the question itself waits for; more is a broken recorder."""
SILENT_AT_MOST_S = 10.0
"""How long a recorder that is to end may say nothing; one that still removes folders says so."""
DIES_WITHIN_S = 5.0
"""How long a killed recorder may take to be gone; one that a file system keeps from it, in uninterruptible sleep, is left."""
NAMED_AT_MOST = 5
"""How many folders that stay are named one by one."""


def why_no_drills_here() -> str:
    """What this machine lacks for a drill, or nothing: a death is proven by pidfd, and the process table is read in ``/proc``."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return f"drills need Linux 5.3 or newer and a Python built for it (pidfd_open); this is {sys.platform}"
    if not Path("/proc/self/stat").exists():
        return "drills need /proc, which is not mounted here"
    return ""


class RecorderFailed(RuntimeError):
    """The recorder is gone, does not answer, or refused a question; the message carries what it said."""


class SpawnFailed(OSError):
    """The recorder could not start the command that an adapter asked for."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """The answer to a wait: whether the event came in time, and how things stand.

    ``state`` has: ``working`` (bool, every role of the newest attempt works), ``held`` (bool, the leader is or was
    at its barrier, or works), ``ended`` (bool, the run has worked and all of it is dead),
    ``others`` (for each other run of the drill ``{"worked": bool, "missing_roles": list}``), ``attempts`` (int, leaders that said hello),
    ``missing_roles`` (list), ``alive`` (list of ``{"subject", "role", "attempt"}``), ``wrapper`` (None or ``{"pid", "exited", "status"}``),
    ``host`` (the same of the process that the adapter lives in), ``reported`` (None or outcome), ``over`` (bool),
    ``handed_over`` (bool), ``stray`` (list of early notices),
    ``problems`` (list of texts: an unarmed habit, a vanished workspace), ``looked`` (int: attempts whose ``found`` was received).
    """

    reached: bool
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OpenDrill:
    """A drill that the recorder keeps a history for; ``mark`` is what its first attempt writes into every line of its files."""

    id: str
    run: Run
    history: Path
    mark: str = ""


class Recorder:
    """The recorder process, seen from pytest."""

    def __init__(self, process: subprocess.Popen[bytes], link: socket.socket) -> None:
        self._process = process
        self._link = link
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._closed = False
        self._has_ended = False
        self._spawned: list[Identity] = []
        self._unfinished: dict[str, Path] = {}
        self._root: Path | None = None
        self._discarded: list[Path] = []
        self._heard_s = time.monotonic()
        self.left: list[Path] = []
        """Once it is closed: the folders of discarded drills that could not be removed, or the root of them all where they are many."""
        threading.Thread(target=self._read_answers, name="cancelcontract-recorder-answers", daemon=True).start()

    @classmethod
    def start(cls, root: Path | None = None) -> Recorder:
        """Start a recorder; it ends everything it knows of and itself when this process is gone.

        Args:
            root: the folder below which drills get theirs; a short temporary one when None.
        Raises:
            RecorderFailed: it could not be started or does not say that it is up.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "pytest_cancelcontract.recorder", "--link", str(theirs.fileno()), "--guarded", str(os.getpid())]
        if "PYTEST_XDIST_WORKER" in os.environ:
            # A worker outlives its controller by a second or two; its drills need not.
            command += ["--above", str(os.getppid())]
        if root is not None:
            command += ["--root", str(root)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), start_new_session=True, stdin=subprocess.DEVNULL, env=environment, cwd="/"
            )
        finally:
            theirs.close()
        recorder = cls(process, ours)
        try:
            recorder._root = Path(recorder.ask("ping")["root"])
            with contextlib.suppress(OSError):
                folders.know_root(recorder._root)
        except RecorderFailed:
            recorder.close()
            raise
        return recorder

    @property
    def pid(self) -> int:
        """The recorder's own process."""
        return self._process.pid

    def ask(self, method: str, *, waits_s: float = 0.0, **params: Any) -> dict[str, Any]:
        """Ask and wait for the answer.

        Raises:
            RecorderFailed: no answer, or the recorder refused.
        """
        number, answer = next(self._ids), Future[dict[str, Any]]()
        self._waiting[number] = answer
        if self._has_ended:
            raise RecorderFailed(f"the recorder (pid {self.pid}) has ended")
        self._send({"id": number, "method": method, "params": params})
        try:
            got = answer.result(timeout=waits_s + ANSWER_WITHIN_S)
        except FutureTimeout:
            raise RecorderFailed(f"the recorder did not answer {method!r} within {waits_s + ANSWER_WITHIN_S:g} s") from None
        finally:
            self._waiting.pop(number, None)
        if "error" in got:
            if got.get("kind") == "spawn":
                raise SpawnFailed(got["error"])
            raise RecorderFailed(got["error"])
        result: dict[str, Any] = got["result"]
        return result

    def open_drill(
        self,
        *,
        header: Mapping[str, Any],
        habits: Sequence[str],
        terms: Terms,
        history: Path,
        env: Mapping[str, str] | None = None,
        plan: Plan = Plan(),  # noqa: B008 - frozen
    ) -> OpenDrill:
        """Begin a drill: a folder, a workspace, a token, and a history file that is written from now on.

        ``header`` needs ``scenario``, ``run_id``, ``task_id``, ``wrapper``, ``capabilities`` and ``attempt``; the recorder adds the rest.
        """
        asked: dict[str, Any] = {"terms": terms.as_dict(), "plan": plan.as_dict()}
        got = self.ask("open", header=dict(header), habits=list(habits), history=str(history), **asked)
        self._unfinished[got["drill"]] = history
        names = {"run_id": str(header["run_id"]), "task_id": str(header["task_id"])}
        return OpenDrill(got["drill"], self._run(got["drill"], got, **names, terms=terms, env=env), history, got["mark"])

    def another_run(self, drill: OpenDrill, name: str, *, habits: Sequence[str], terms: Terms) -> Run:
        """Another run in the same drill, of a task of its own: ``bystander`` or ``next``."""
        got = self.ask("another", drill=drill.id, name=name, habits=list(habits))
        run_id, task_id = f"{drill.run.id}-{name}", f"{drill.run.task_id}-{name}"
        return self._run(drill.id, got, run_id=run_id, task_id=task_id, terms=terms, env=drill.run.env, name=name)

    def second_run(self, drill: OpenDrill, run_id: str) -> Run:
        """A second run of the drill's task: the same command line and the same offered workspace, untouched."""
        return replace(drill.run, id=run_id)

    def observe(self, drill: OpenDrill, witness: str, kind: str, *, at_s: float | None = None, **data: Any) -> None:
        """Add an observation made on this side (``adapter.*``, ``outcome.*``, ``drill.*``); it is not answered."""
        at_s = time.monotonic() if at_s is None else at_s
        self._send({"method": "observe", "params": {"drill": drill.id, "at_s": at_s, "witness": witness, "kind": kind, "data": data}})

    def wait(self, drill: OpenDrill, event: str, *, at_most_s: float) -> Awaited:
        """Block until something has happened, or for ``at_most_s``.

        Events: ``working`` (all roles of the newest attempt work), ``held`` (the leader is at its barrier, or beyond it), ``ended`` (the
        run has worked, and every process of it is dead), ``delivered`` (a process had notice after the press, or died),
        ``wrapper-exited``, ``handover``, ``over`` (every process gone, cancel returned, outcome reported if it is covered, settled;
        or the last limit has passed and what survives was watched), ``second-working`` (a second attempt has looked for poison),
        of an agent ``asked`` (its first request), ``streams`` (it got some tokens of an answer) and ``tool-works`` (the command that it was
        told to run has written),
        ``NAME-working``, ``NAME-gone``, ``NAME-exited`` and ``NAME-wrote`` for another run of the drill (it has worked; all of it is
        dead; its wrapper has exited; it wrote, or died, since the first run was gone or had outlived its deadline). Behind any of
        them, ``-or-exited`` waits for the wrapper's exit as well.
        """
        got = self.ask("wait", waits_s=at_most_s, drill=drill.id, event=event, at_most_s=at_most_s)
        return Awaited(bool(got["reached"]), got["state"])

    def script(self, drill: OpenDrill, answers: Script) -> None:
        """Have the provider answer the run by this script from now on."""
        self.ask("script", drill=drill.id, answers=answers.as_list())

    def signal(self, drill: OpenDrill, name: str, *, to: str) -> float:
        """Send an agent's process (``to="pid"``) or its group (``"group"``) a signal, ``"SIGTERM"`` say; returns when it was sent."""
        at_s: float = self.ask("signal", drill=drill.id, name=name, to=to)["at_s"]
        return at_s

    def note_line(self, drill: OpenDrill) -> None:
        """Have it noted who stands above the runner by now."""
        self.ask("note_line", drill=drill.id)

    def finish(self, drill: OpenDrill, why: str) -> list[dict[str, Any]]:
        """Take the last looks, end whatever of the drill is alive, close the history.

        Returns what had to be ended, as ``{"subject", "role", "left"}``: ``left`` where it may not be signalled from here, and lives on.
        """
        reaped: list[dict[str, Any]] = self.ask("finish", drill=drill.id, why=why)["reaped"]
        self._unfinished.pop(drill.id, None)
        return reaped

    def discard(self, drill: OpenDrill) -> None:
        """Have the drill's folder (not its history) removed; it is not waited for, and no error. What stays is in ``left`` at the end."""
        self._discarded.append(drill.run.folder)
        with contextlib.suppress(RecorderFailed):
            self._send({"method": "discard", "params": {"drill": drill.id}})

    def close(self) -> None:
        """End everything of every drill, then the recorder itself; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RecorderFailed, OSError):
            self._send({"method": "bye"})
            self._link.shutdown(socket.SHUT_WR)
        # A second Ctrl-C only ends this wait: the recorder has been told, and ends by itself.
        with contextlib.suppress(KeyboardInterrupt):
            self._await_end()
        self._link.close()
        if self._process.returncode:
            self._end_orphans()
        if self._root is not None and folders.is_there(self._root):
            left = [folder for folder in self._discarded if folders.is_there(folder)]
            self.left = left if 0 < len(left) <= NAMED_AT_MOST else [self._root]

    def _await_end(self) -> None:
        """Wait for the recorder for as long as it is heard, and then kill it."""
        self._heard_s = time.monotonic()
        while (left_s := self._heard_s + SILENT_AT_MOST_S - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=left_s)
                return
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=DIES_WITHIN_S)

    def _end_orphans(self) -> None:
        """End what the recorder, which was killed itself, would have ended: its commands, and what its histories say it held or found.

        A runner process ends with its recorder by itself, but for a stopped one that has closed all descriptors, or is the first
        process of a PID namespace.
        """
        noted = [identity for path in self._unfinished.values() for identity in _noted(path)]
        reaper.end_all([*self._spawned, *noted])
        if self._root is not None:
            removal = threading.Thread(target=folders.remove, args=(self._root,), name="cancelcontract-removal", daemon=True)
            removal.start()
            patience = folders.Patience()
            while removal.is_alive() and not patience.is_over():
                removal.join(timeout=0.1)

    def _run(
        self,
        drill: str,
        got: Mapping[str, Any],
        *,
        run_id: str,
        task_id: str,
        terms: Terms,
        env: Mapping[str, str] | None,
        name: str = FIRST,
    ) -> Run:
        def spawn(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], role: str) -> Spawned:
            answer = self.ask("spawn", drill=drill, argv=list(argv), cwd=str(cwd), env=dict(environment), role=role, run=name)
            self._spawned.append(Identity(answer["pid"], answer["start"]))
            return Spawned(answer["pid"], answer["start"], Path(answer["output"]))

        def command(argv: Sequence[str], cwd: Path, environment: Mapping[str, str], at_most_s: float) -> Ran:
            given = {"argv": list(argv), "cwd": str(cwd), "env": dict(environment), "at_most_s": at_most_s}
            answer = self.ask("command", waits_s=at_most_s, drill=drill, **given)
            return Ran(answer["status"], Path(answer["output"]), answer["began_s"])

        def status(host: Spawned, at_most_s: float) -> int | None:
            event = f"end of {Identity(host.pid, host.start)}"
            answer = self.ask("wait", waits_s=at_most_s, drill=drill, event=event, at_most_s=at_most_s)
            told: int | None = (answer["state"]["host"] or {}).get("status")
            return told

        def disrupt(how: str) -> None:
            if lacks := self.ask("disrupt", drill=drill, how=how)["lacks"]:
                raise Lacking(lacks)

        return Run(
            id=run_id,
            task_id=task_id,
            argv=tuple(got["argv"]),
            env={**(os.environ if env is None else env), PROVIDER: got["provider"]},
            workspace=Path(got["workspace"]),
            source=Path(got["source"]),
            folder=Path(got["folder"]),
            time_limit=terms.time_limit_s,
            stall_after=terms.stall_after_s,
            lease=terms.lease_s,
            heartbeat_timeout=terms.heartbeat_timeout_s,
            provider=got["provider"],
            _spawn=spawn,
            _command=command,
            _status=status,
            _disrupt=disrupt,
        )

    def _send(self, message: Mapping[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                self._link.sendall(data)
        except OSError as error:
            raise RecorderFailed(f"the recorder (pid {self.pid}) is gone: {error}") from error

    def _read_answers(self) -> None:
        with self._link.makefile("rb") as lines:
            try:
                for line in lines:
                    self._heard_s = time.monotonic()
                    answer = json.loads(line)
                    waiting = self._waiting.get(answer["id"])
                    if waiting is not None:
                        waiting.set_result(answer)
            except (OSError, ValueError):
                pass
        self._has_ended = True
        for waiting in list(self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(RecorderFailed("the recorder has ended"))


def _noted(history: Path) -> list[Identity]:
    """Each process that the recorder had in its hands, as a history tells it."""
    try:
        seen = load(history).of("process-table", "spawned", "held", "found")
        return [Identity.parse(one.subject) for one in seen]
    except (OSError, ValueError):
        return []
