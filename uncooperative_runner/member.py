"""One process of the runner: joins the recorder, proves its habits, works until it is ended. The leader and every other is one."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from uncooperative_runner import lifetime, wire
from uncooperative_runner.notices import SignalTaker, Unarmed, input_state, kind_of, wait_for_end_of_input
from uncooperative_runner.worklog import WorkLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.habits import Habit
    from uncooperative_runner.mapped import MappedLog
    from uncooperative_runner.options import Options
    from uncooperative_runner.spend import Spender

    Arming = Callable[[], "list[dict[str, str]]"]

WRITE_EVERY_S = 0.05
TELL_EVERY_WRITES = 5
PAUSE_S = 0.4
CANCELS_AT = 0.9
"""At which share of its clean-up a background request is cancelled: it takes the time that it was promised."""
FOR_EVER_S = 1e6
REFUSED_STATUS = 70
INPUT_ENDED_STATUS = 129  # as for SIGHUP: both say that the other side has gone


class Member:
    """What one process says, hears, writes, and does at notice (as the leader of the habit ``manner`` does)."""

    def __init__(self, role: str, options: Options, manner: Habit, narrator: Narrator | None, folder: str = "") -> None:
        """``folder`` is where it works; without one, where it stands."""
        self.role = role
        self.options = options
        self.manner = manner
        self.attempt = ""
        self.folder = folder or _own_folder()
        self._log: WorkLog | MappedLog = WorkLog(self.folder, role)
        self._narrator = narrator
        self._lifeline: wire.Lifeline | None = None
        self._guard: socket.socket | None = None
        self._address = ""
        self._taker = SignalTaker(self._on_notice, self._on_coming)
        self._notices: list[str] = []
        self._woken = threading.Event()
        self._may_work = False
        self._has_begun = False
        self.providers: list[str] = []
        self.spender: Spender | None = None
        self.is_cleaning_up = False
        self._quiet_until_s = 0.0
        self._shall_stick = False

    def say(self, what: str, **facts: object) -> None:
        """Tell the recorder; by hand, the person."""
        teller = self._lifeline or self._narrator
        if teller:
            teller.say(what, **facts)

    @property
    def is_by_hand(self) -> bool:
        """Whether a person runs it, and no recorder listens."""
        return not self.options.recorders

    @property
    def is_quiet(self) -> bool:
        """Whether it pauses: nothing is written or printed."""
        return time.monotonic() < self._quiet_until_s

    @property
    def descriptors(self) -> list[int]:
        """Those of its lifeline and guard."""
        return [connection.fileno() for connection in (self._lifeline, self._guard) if connection]

    def is_heard(self) -> bool:
        """Whether the recorder listens where it was found; no other address proves it, for a port may be a stranger's by now."""
        return wire.is_heard([self._address])

    def let_go(self) -> None:
        """Close the lifeline and the guard, and say no more; in a forked child, the leader's.

        A copy held open there would hide the leader's end from the recorder.
        """
        lifeline, self._lifeline = self._lifeline, None
        if lifeline:
            lifeline.abandon()
        if self._guard:
            self._guard.close()

    def leave(self, status: int, why: str) -> NoReturn:
        """Say goodbye and end, from any thread."""
        self.say("goodbye", status=status, why=why)
        os._exit(status)

    def join(self, attempt: str | None, **facts: object) -> str:
        """Say hello; be told what for ("work", "look" or "overlap") and where to spend. Ends the process if it is refused or unheard."""
        lifetime.arm_alarm(self.options.deadline_s)
        may_wait = self.is_by_hand or "held" in facts  # and be stopped meanwhile
        if may_wait:
            lifetime.arm_kill(self.options.deadline_s)
        hello = {
            "token": self.options.token,
            "role": self.role,
            "attempt": attempt,
            "habits": self.options.plan.names,
            "stdin": input_state(),
            "stdout_kind": kind_of(1),
            **_facts_of_process(),
            **facts,
        }
        if self.is_by_hand:
            self.attempt = attempt or f"{self.options.token}-{os.getpid()}"
            self.say("started", **{name: hello[name] for name in ("ppid", "pgid", "sid", "habits", "stdin", "stdout_kind")})
            return "work"
        try:
            connection, self._address = wire.connect(self.options.recorders)
        except wire.NoRecorder as error:
            _leave_unheard(f"no recorder answers: {error}")
        self._lifeline = wire.Lifeline(connection)
        self._lifeline.say("hello", **hello)
        if not may_wait:
            lifetime.arm_kill(self.options.deadline_s)  # loads ctypes while the recorder thinks
        answer = (self._lifeline.hear() or "refused the recorder hung up").split()
        if len(answer) < 3 or answer[0] != "go":
            _leave_unheard(f"refused by the recorder: {' '.join(answer[1:])}")
        self.attempt = answer[1]
        self.providers = answer[3:]
        return answer[2]

    def work(
        self,
        arm_more: Arming,
        *,
        first: Callable[[], None] | None = None,
        then: Callable[[], None] | None = None,
        then_stops: bool = False,
        listens: bool = True,
        writes: bool = True,
    ) -> NoReturn:
        """Prove that all is armed, write, say so, and go on for ever.

        Args:
            first: called once it takes its signals, before anything of it shows.
            then: called once it has said that it works; ``then_stops``: by then it will have stopped itself.
            listens: it hears what the recorder says, and ends with it. A thread that listens holds the lifeline open; who does not listen
                keeps no other descriptor open either.
            writes: the work is its own.
        """
        if self._lifeline:
            self._guard = wire.open_guard(self._address, self.options.token)
        self.in_thread(lambda: self._taker.take(by_descriptor=listens))
        if self._lifeline and listens:
            self.in_thread(self.listen)
        if input_state() == "open":
            self.in_thread(self._watch_input)
        armed = [{"habit": self.manner.name, "proof": self._taker.prove(self.manner.name)}]
        if first:
            first()
        armed += arm_more()
        if writes:
            self._write_first()
        self.say("working", armed=armed, **({"then": "stops"} if then_stops else {}))
        if self._narrator and self.role != "leader":
            self._narrator.close()
        if then:
            then()
        self._keep_working(writes)

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
            elif word == "work":
                self._release()

    def wait_for_work(self) -> None:
        """Be held until the recorder says that it may work (by hand: until Enter). At notice it does meanwhile what its habit does."""
        if self.is_by_hand:
            from uncooperative_runner.by_hand import wait_for_enter

            self.in_thread(lambda: wait_for_enter(self._release))
        self.say("ready")
        while not self._may_work:
            self._woken.wait()
            self._react_to_all()

    def _release(self) -> None:
        self._may_work = True
        self._woken.set()

    def _watch_input(self) -> None:
        wait_for_end_of_input()
        self.say("input-ended")
        if self.is_by_hand:
            self._on_notice("input ended", None, None)  # nobody else decides whether that counts

    def _on_coming(self, signals: list[str]) -> None:
        if self._lifeline:
            self._lifeline.say("taking", signals=signals)

    def _on_notice(self, by: str, pid: int | None, uid: int | None) -> None:
        self.say("notice", by=by, from_pid=pid, from_uid=uid)
        self._notices.append(by)
        self._woken.set()

    def write_mapped(self) -> str:
        """From now on write through a mapping and a descriptor, and open nothing by path; what was proven, in words.

        Raises:
            Unarmed: they cannot be had, or what is written so is not in the files.
        """
        from uncooperative_runner.mapped import MappedLog

        try:
            self._log = log = MappedLog(self.folder, f"{self.options.token} {self.attempt}")
            return log.prove()
        except OSError as error:
            raise Unarmed(self.manner.name, str(error)) from None

    def write_what_can_be(self) -> None:
        """Write once; said if it is the first time. What cannot be written is left."""
        try:
            self._write()
        except OSError:
            return
        if self._log.count == 1:
            self.say("wrote", path=self._log.path, count=1)

    def write_until(self, until_s: float) -> None:
        """Write on as one that works does, until then (monotonic)."""
        while time.monotonic() + WRITE_EVERY_S < until_s:
            time.sleep(WRITE_EVERY_S)
            self.write_what_can_be()

    def _write(self) -> None:
        self._log.write(f"{self.options.token} {self.attempt}")

    def _write_first(self) -> None:
        try:
            self._write()
        except OSError as error:
            raise Unarmed("writes", str(error)) from None
        self.say("wrote", path=self._log.path, count=self._log.count)

    def _keep_working(self, writes: bool) -> NoReturn:
        next_s = time.monotonic() + WRITE_EVERY_S
        while True:
            if self._woken.wait(next_s - time.monotonic() if writes else None):
                self._react_to_all()
            next_s = max(next_s, self._quiet_until_s)
            if not writes or time.monotonic() < next_s:
                continue
            next_s = max(next_s + WRITE_EVERY_S, time.monotonic())
            try:
                self._write()
            except OSError:
                continue  # a folder that is taken away for good, a full disk: it stays uncooperative
            if self._log.count % TELL_EVERY_WRITES == 0:
                self.say("wrote", path=self._log.path, count=self._log.count)

    def get_stuck(self) -> None:
        """From any thread: make no progress any more, and say so once that is sure."""
        self._shall_stick = True
        self._woken.set()

    def _react_to_all(self) -> None:
        self._woken.clear()
        if self._shall_stick:
            self._shall_stick = False
            self._quiet_until_s = time.monotonic() + FOR_EVER_S
            self.say("wedged")
        while self._notices:
            self._react(self._notices.pop(0))

    def _react(self, by: str) -> None:
        """Do what the habit does at this notice; it may not return. What takes time is begun once."""
        answer = self.manner.answer_to(by)
        status = INPUT_ENDED_STATUS if by == "input ended" else 128 + signal.Signals[by]
        if answer == "end":
            self.leave(status, f"noticed {by}")
        if answer == "end with status 0":
            self.leave(0, f"noticed {by}")
        if answer == "end the step, then end at the second notice" and self._has_begun:
            self.leave(status, f"noticed {by}, the second notice")
        if answer == "nothing" or self._has_begun:
            return
        self._has_begun = True
        if answer == "start a successor, then end":
            from uncooperative_runner.another import start_successor

            self.leave(status, f"noticed {by}; {start_successor(self)}")
        if answer in ("end the step, then end at the second notice", "end the step, pause, work on"):
            self._end_step(PAUSE_S if answer == "end the step, pause, work on" else 0)
            return
        self.is_cleaning_up = answer != "clean up for ever"
        self.say("cleanup-started")
        if answer == "clean up for ever":
            return
        if answer == "cancel the background request, then end":
            time.sleep(CANCELS_AT * self.options.cleanup_s)
            if self.spender:
                self.spender.cancel_background()
        else:
            time.sleep(self.options.cleanup_s)
        self.say("cleanup-finished")
        self.leave(status, f"cleaned up after {by}")

    def _end_step(self, pause_s: float) -> None:
        if pause_s:
            self._quiet_until_s = float("inf")  # until the pause is counted, which begins when it has been said
        if self.spender:
            self.spender.end_step()
        self.say("step-ended")
        self._quiet_until_s = time.monotonic() + pause_s


def _own_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""  # it was deleted before we came


def _facts_of_process() -> dict[str, object]:
    here = os.stat(".")
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "pgid": os.getpgrp(),
        "sid": os.getsid(0),
        "uid": os.getuid(),
        "cwd": _own_folder(),
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
