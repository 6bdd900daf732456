"""One process of the runner: joins the recorder, proves its habits, works until it is ended. The leader and every child is one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from uncooperative_runner import lifetime, wire
from uncooperative_runner.notices import SignalTaker, Unarmed, input_state, kind_of, wait_for_end_of_input

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.habits import AtNotice
    from uncooperative_runner.options import Options

    Arming = Callable[[], "list[dict[str, str]]"]

WRITE_EVERY_S = 0.05
TELL_EVERY_WRITES = 5
REFUSED_STATUS = 70
INPUT_ENDED_STATUS = 129  # as for SIGHUP: both say that the other side has gone


class Member:
    """What one process says, hears, writes, and does at notice."""

    def __init__(self, role: str, options: Options, manner: str, at_notice: AtNotice, narrator: Narrator | None) -> None:
        self.role = role
        self.options = options
        self.manner = manner
        self.at_notice = at_notice
        self.attempt = ""
        try:
            self.folder = os.getcwd()
        except OSError:
            self.folder = ""  # it was deleted before we came
        self._narrator = narrator
        self._lifeline: wire.Lifeline | None = None
        self._address = ""
        self._taker = SignalTaker(self._on_notice)
        self._noticed = threading.Event()
        self._first_notice = ""
        self._writes = 0

    def say(self, what: str, **facts: object) -> None:
        """Tell the recorder; by hand, the person."""
        teller = self._lifeline or self._narrator
        if teller:
            teller.say(what, **facts)

    @property
    def is_by_hand(self) -> bool:
        """Whether a person runs it, and no recorder listens."""
        return self._narrator is not None

    def let_go(self) -> None:
        """In a forked child: close the leader's lifeline. A copy held open would hide the leader's end from the recorder."""
        if self._lifeline:
            self._lifeline.abandon()

    def leave(self, status: int, why: str) -> NoReturn:
        """Say goodbye and end, from any thread."""
        self.say("goodbye", status=status, why=why)
        os._exit(status)

    def join(self, attempt: str | None, **facts: object) -> str:
        """Say hello and be told what for: "work" or "look". Ends the process if it is refused or nobody answers."""
        lifetime.arm_alarm(self.options.deadline_s)
        hello = {
            "token": self.options.token,
            "role": self.role,
            "attempt": attempt,
            "habits": self.options.plan.names,
            "stdin": input_state(),
            "stdout_kind": kind_of(1),
            **_facts_of_process(self.folder),
            **facts,
        }
        if self._narrator:
            lifetime.arm_kill(self.options.deadline_s)
            self.attempt = attempt or f"{self.options.token}-{os.getpid()}"
            self.say("started", **{name: hello[name] for name in ("ppid", "pgid", "sid", "habits", "stdin", "stdout_kind")})
            return "work"
        try:
            connection, self._address = wire.connect(self.options.recorders)
        except wire.NoRecorder as error:
            _leave_unheard(f"no recorder answers: {error}")
        self._lifeline = wire.Lifeline(connection)
        self._lifeline.say("hello", **hello)
        lifetime.arm_kill(self.options.deadline_s)  # loads ctypes while the recorder thinks
        answer = (self._lifeline.hear() or "refused the recorder hung up").split()
        if len(answer) != 3 or answer[0] != "go":
            _leave_unheard(f"refused by the recorder: {' '.join(answer[1:])}")
        self.attempt = answer[1]
        return answer[2]

    def work(self, arm_more: Arming) -> NoReturn:
        """Prove that all is armed, write, say so, and go on for ever."""
        guard = wire.open_guard(self._address, self.options.token) if self._lifeline else None  # noqa: F841 - open as long as we live
        self.in_thread(self._taker.take)
        if self._lifeline:
            self.in_thread(self.listen)
        if input_state() == "open":
            self.in_thread(self._watch_input)
        armed = [{"habit": self.manner, "proof": self._taker.prove(self.manner)}, *arm_more()]
        try:
            self._write()
        except OSError as error:
            raise Unarmed("writes", str(error)) from None
        self.say("wrote", path=self._log, count=self._writes)
        self.say("working", armed=armed)
        if self._narrator and self.role != "leader":
            self._narrator.close()
        self._keep_working()

    def in_thread(self, body: Callable[[], None]) -> None:
        """Run ``body`` beside the rest."""
        threading.Thread(target=self.guarded, args=(body,), daemon=True).start()

    def guarded(self, body: Callable[[], object]) -> None:
        """Run ``body``; if it fails, the process says so and ends: half a habit proves nothing, and silence would look like a kill."""
        try:
            body()
        except Unarmed as error:
            self._leave_unarmed(error.habit, error.why)
        except Exception as error:
            self._leave_unarmed("itself", f"{type(error).__name__}: {error}")

    def _leave_unarmed(self, habit: str, why: str) -> NoReturn:
        self.say("unarmed", habit=habit, why=why)
        self.leave(REFUSED_STATUS, f"{habit} is not armed")

    def listen(self) -> None:
        """Do as the recorder says, for ever; its end of file is ours."""
        assert self._lifeline
        while True:
            word = self._lifeline.hear()
            if word is None:
                wire.die()
            if word == "end":
                self.leave(0, "the recorder said so")
            elif word == "notice":
                self._on_notice("input ended", None, None)

    def _watch_input(self) -> None:
        wait_for_end_of_input()
        self.say("input-ended")
        if self._narrator:
            self._on_notice("input ended", None, None)  # nobody else decides whether that counts

    def _on_notice(self, by: str, pid: int | None, uid: int | None) -> None:
        self.say("notice", by=by, from_pid=pid, from_uid=uid)
        if not self._first_notice:
            self._first_notice = by
            self._noticed.set()

    @property
    def _log(self) -> str:
        return os.path.join(self.folder, f"uncooperative-{self.role}.log")

    def _write(self) -> None:
        """Append a line to the log, by its absolute path: in a folder that is gone, or another's by now, if need be."""
        if not self.folder:
            raise OSError("the working folder was gone from the start")
        line = f"uncooperative {self.options.token} {self.attempt} {os.getpid()} {self._writes + 1} {time.monotonic():.6f}\n"
        try:
            descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except FileNotFoundError:
            os.makedirs(self.folder, exist_ok=True)
            descriptor = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8", "surrogateescape"))
        finally:
            os.close(descriptor)
        self._writes += 1

    def _keep_working(self) -> NoReturn:
        next_s = time.monotonic() + WRITE_EVERY_S
        while True:
            if self._noticed.wait(next_s - time.monotonic()):
                self._noticed.clear()
                self._react()
            if time.monotonic() < next_s:
                continue
            next_s = max(next_s + WRITE_EVERY_S, time.monotonic())
            try:
                self._write()
            except OSError:
                continue  # a folder that is taken away for good, a full disk: it stays uncooperative
            if self._writes % TELL_EVERY_WRITES == 0:
                self.say("wrote", path=self._log, count=self._writes)

    def _react(self) -> None:
        """Do what the habit does at the first notice, once; it may not return."""
        by = self._first_notice
        status = INPUT_ENDED_STATUS if by == "input ended" else 128 + signal.Signals[by]
        if self.at_notice == "end":
            self.leave(status, f"noticed {by}")
        if self.at_notice == "end with status 0":
            self.leave(0, f"noticed {by}")
        if self.at_notice == "nothing":
            return
        self.say("cleanup-started")
        if self.at_notice == "clean up, then end":
            time.sleep(self.options.cleanup_s)
            self.say("cleanup-finished")
            self.leave(status, f"cleaned up after {by}")


def _facts_of_process(folder: str) -> dict[str, object]:
    here = os.stat(".")
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "pgid": os.getpgrp(),
        "sid": os.getsid(0),
        "uid": os.getuid(),
        "cwd": folder,
        "cwd_dev": here.st_dev,
        "cwd_ino": here.st_ino,
        "argv": list(getattr(sys, "orig_argv", sys.argv)),  # orig_argv from 3.10
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
    }


def _leave_unheard(why: str) -> NoReturn:
    try:
        os.write(2, f"uncooperative runner: {why}\n".encode("utf-8", "backslashreplace"))
    finally:
        os._exit(REFUSED_STATUS)
