"""How a process learns that it shall stop: four signals, and the end of an input that was open.

A signal that is *ignored* leaves no trace, so even a deaf process blocks the four and has one thread take them.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import struct
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[str, "int | None", "int | None"], None]  # by what, sender's pid, sender's uid
    Announce = Callable[[list[str]], None]  # by what

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PROVEN_WITHIN_S = 10.0
_RDHUP: int = getattr(select, "POLLRDHUP", 0)


class Unarmed(Exception):
    """A habit could not be proven to be armed."""

    def __init__(self, habit: str, why: str) -> None:
        super().__init__(f"{habit}: {why}")
        self.habit = habit
        self.why = why


def hold_signals() -> None:
    """Block the four from now on: they wait until the taker is there. Before any fork or thread, which inherit this."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # a blocked signal that nohup or a shell had ignored is kept for sure only then
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it was inherited as ignored, there would be nobody to wait for


class SignalTaker:
    """The loop that takes the signals and reports them with their sender, and the proof that it does."""

    def __init__(self, report: Report, announce: Announce) -> None:
        self._report = report
        self._announce = announce
        self._probed = {int(number): threading.Event() for number in SIGNALS}
        self._expected: set[int] = set()
        self._thread: int | None = None
        self._is_running = threading.Event()

    def take(self, *, by_descriptor: bool) -> None:
        """Take signals for ever; the body of a thread of its own. ``by_descriptor`` where one more may be open."""
        self._thread = threading.get_ident()
        wait = _waiter(self._comes, by_descriptor)
        self._is_running.set()
        while True:
            number, pid, uid = wait()
            is_mine = pid in (None, os.getpid())  # the code of a signal would say more, but glibc hides SI_TKILL
            if is_mine and number in self._expected:
                self._expected.discard(number)
                self._probed[number].set()
            else:
                self._report(signal.Signals(number).name, pid, uid)

    def _comes(self, waiting: set[int]) -> None:
        if new := sorted(waiting - self._expected):
            self._announce([signal.Signals(number).name for number in new])

    def prove(self, habit: str) -> str:
        """Send each signal to the taker and see it taken; what was proven, in words.

        To the thread, not to the process: one that is pending for the process would swallow a real one of the same number,
        signal(7). Thread-directed and process-directed signals wait in two queues, and both are served.

        Raises:
            Unarmed: one was not taken, or is not blocked.
        """
        open_to = set(SIGNALS) - signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if open_to or not self._is_running.wait(PROVEN_WITHIN_S) or self._thread is None:
            raise Unarmed(habit, f"not blocked: {sorted(open_to)}" if open_to else "no thread takes the signals")
        for number in SIGNALS:
            self._expected.add(int(number))
            signal.pthread_kill(self._thread, number)
            if not self._probed[int(number)].wait(PROVEN_WITHIN_S):
                raise Unarmed(habit, f"{number.name} was not taken")
        return f"took its own {', '.join(number.name for number in SIGNALS)}; all blocked"


def _waiter(comes: "Callable[[set[int]], None]", by_descriptor: bool) -> "Callable[[], tuple[int, int | None, int | None]]":
    """What waits for the next of the four and takes it: its number, and its sender's pid and uid where the system tells.

    By a descriptor where there is one: sigwaitinfo(2) takes a signal inside the kernel, and a process that is stopped at that moment would
    have it and could not tell, while from outside it seems that none was ever sent. What is taken by reading waits until it is read, so it
    ``comes`` first: who is stopped between that and its report has at least said what it was about to take.
    """
    descriptor = _signal_descriptor() if by_descriptor else None
    if descriptor is not None:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        return lambda: _read_signal(descriptor, poller, comes)
    if hasattr(signal, "sigwaitinfo"):  # not on macOS
        return _wait_for_signal
    return lambda: (int(signal.sigwait(SIGNALS)), None, None)


def _wait_for_signal() -> "tuple[int, int | None, int | None]":
    info = signal.sigwaitinfo(SIGNALS)
    return info.si_signo, info.si_pid, info.si_uid


def _signal_descriptor() -> "int | None":
    """A signalfd(2) of the four; None where the system or this Python has none."""
    try:
        import ctypes

        make = ctypes.CDLL(None).signalfd
    except (ImportError, OSError, AttributeError):
        return None
    word = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (1024 // word))()  # sigset_t, 1,024 bits in every libc
    for number in SIGNALS:
        mask[(number - 1) // word] |= 1 << (number - 1) % word
    descriptor: int = make(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK)
    return descriptor if descriptor >= 0 else None


def _read_signal(descriptor: int, poller: select.poll, comes: "Callable[[set[int]], None]") -> "tuple[int, int | None, int | None]":
    while True:
        poller.poll()
        comes({int(number) for number in signal.sigpending() if number in SIGNALS})
        try:
            number, _errno, _code, pid, uid = struct.unpack_from("=IiiII", os.read(descriptor, 128))  # struct signalfd_siginfo
        except BlockingIOError:
            continue
        return number, pid, uid


def kind_of(descriptor: int) -> str:
    """What a descriptor is: "pipe", "socket", "file", "tty", "null", "device" or "closed"."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return "closed"
    if stat.S_ISCHR(status.st_mode):
        is_null = status.st_rdev == os.stat(os.devnull).st_rdev
        return "null" if is_null else "tty" if os.isatty(descriptor) else "device"
    for name, is_kind in (("pipe", stat.S_ISFIFO), ("socket", stat.S_ISSOCK), ("file", stat.S_ISREG)):
        if is_kind(status.st_mode):
            return name
    return "device"


def input_state() -> str:
    """The state of standard input: "open" or "ended" for a pipe or socket, else :func:`kind_of` it."""
    kind = kind_of(0)
    if kind not in ("pipe", "socket"):
        return kind
    return "ended" if _input_poller().poll(0) else "open"


def wait_for_end_of_input() -> None:
    """Block until the other end of standard input is closed, without reading: bytes that nobody takes would be gone."""
    _input_poller().poll()


def _input_poller() -> select.poll:
    poller = select.poll()
    poller.register(0, _RDHUP)  # hang-up and error are always reported, poll(2)
    return poller
