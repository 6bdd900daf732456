"""The leader: looks for what an earlier run left, starts the children, prints, leaves poison, and is a member like the others.

All forks come before all threads (a fork beside threads can deadlock, and Python 3.12 warns of it).
"""

from __future__ import annotations

import os
import signal
import sys
import time

from uncooperative_runner import poison
from uncooperative_runner.member import REFUSED_STATUS, Member
from uncooperative_runner.notices import Unarmed, hold_signals, kind_of
from uncooperative_runner.options import BEFORE_HANDLERS, BEFORE_WORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from uncooperative_runner.by_hand import Narrator
    from uncooperative_runner.lock import Lock
    from uncooperative_runner.options import Options

LOOK_S = 0.2
OVERLAP_S = 0.3
WORK_DONE_S = 0.25


def lead(options: Options) -> NoReturn:
    """Be the leader until the end."""
    held = {"held": BEFORE_HANDLERS} if options.hold == BEFORE_HANDLERS else {}
    if held:
        _let_signals_kill()
    else:
        hold_signals()
    closed = _fill_standard_descriptors()
    narrator: Narrator | None = None
    if not options.recorders:
        from uncooperative_runner.by_hand import TOKEN, Narrator

        options.token = TOKEN
        narrator = Narrator(2, "leader")
    leader = Member("leader", options, options.plan.manner, narrator)
    order = leader.join(None, roles=options.plan.roles, **held, **closed)
    if held:
        if narrator:
            _wait_for_enter(narrator)
        hold_signals()
    leader.guarded(lambda: _go(leader, order, narrator))
    os._exit(REFUSED_STATUS)


def _let_signals_kill() -> None:
    """Take back Python's own handler: the one for INT is not the runner's, and would raise an exception. QUIT shall dump no core."""
    import resource

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _wait_for_enter(narrator: Narrator) -> None:
    from uncooperative_runner.by_hand import wait_for_enter

    narrator.say("is held before its first handler; Enter lets it go on")
    wait_for_enter(lambda: None)


def _go(leader: Member, order: str, narrator: Narrator | None) -> NoReturn:
    plan = leader.options.plan
    found = poison.find(leader.folder, leader.attempt)
    session = poison.carried_session(sys.argv[1:], os.environ, leader.options.token)
    is_marked = bool(leader.folder) and poison.why_not_here(leader.folder) is None
    leader.say("found", looked=True, marked=is_marked, poison=found, session=session)
    if order in ("look", "overlap"):
        _only_look(leader, works=order == "overlap")
    pids = _start_children(leader)
    if narrator:
        _tell_how_to_end(narrator, [os.getpid(), *pids], leader.options.deadline_s)
    if plan.loses_main_thread:
        from uncooperative_runner.main_thread import end_main_thread

        end_main_thread(leader, lambda: _work(leader))
    _work(leader)


def _work(leader: Member) -> NoReturn:
    plan = leader.options.plan
    leader.work(
        lambda: _arm(leader),
        first=leader.wait_for_work if leader.options.hold == BEFORE_WORK else None,
        then=lambda: _once_working(leader),
        then_stops=plan.stops_itself,
        writes=plan.leader_works,
    )


def _start_children(leader: Member) -> list[int]:
    plan = leader.options.plan
    if not plan.children:
        return []
    from uncooperative_runner.children import start_child

    lock: Lock | None = None
    if plan.holds_lock:
        from uncooperative_runner.lock import take

        lock = take(leader.folder, poison.marker_of(leader.options.token, leader.attempt))
    return [pid for row in plan.children for pid in start_child(row, leader, lock)]


def _only_look(leader: Member, *, works: bool) -> NoReturn:
    """Nothing but the report: whoever asked wants to know what a run would find, and no run.

    ``works``: beside an earlier run that is alive it writes as a run would, for a moment, so that it shows what comes of two at once.
    """
    until_s = time.monotonic() + (OVERLAP_S if works else LOOK_S)
    if works:
        leader.write_what_can_be()
    leader.say("working", armed=[])
    leader.in_thread(leader.listen)
    if works:
        leader.write_until(until_s)
    time.sleep(max(0.0, until_s - time.monotonic()))
    leader.leave(0, "has looked")


def _fill_standard_descriptors() -> dict[str, str]:
    """Put the null device where 0, 1 or 2 is closed, lest a socket land there; what was closed, as facts of the hello."""
    closed = [descriptor for descriptor in (0, 1, 2) if kind_of(descriptor) == "closed"]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free
    return {fact: "closed" for descriptor, fact in ((0, "stdin"), (1, "stdout_kind")) if descriptor in closed}


def _tell_how_to_end(narrator: Narrator, pids: list[int], deadline_s: float) -> None:
    left_s = deadline_s - time.monotonic()
    narrator.say(f"to end it all: kill -KILL {' '.join(map(str, pids))}   (it ends by itself in {left_s:.0f} s)")


def _arm(leader: Member) -> list[dict[str, str]]:
    """What the leader proves beyond how it takes its signals."""
    plan = leader.options.plan
    proven = []
    if plan.loses_main_thread:
        from uncooperative_runner.main_thread import prove_main_thread_gone

        proven.append({"habit": "main-thread-gone", "proof": prove_main_thread_gone()})
    if plan.manner.at_notice == "start a successor, then end":
        from uncooperative_runner.another import prove_can_start

        proven.append({"habit": plan.manner.name, "proof": prove_can_start(plan.manner.name)})
    if plan.manner.writes_mapped:
        proven.append({"habit": plan.manner.name, "proof": leader.write_mapped()})
    if plan.stops_itself:
        if os.getpid() == 1:
            raise Unarmed("frozen", "the first process of a PID namespace cannot be stopped from inside, pid_namespaces(7)")
        proven.append({"habit": "frozen", "proof": "sends itself SIGSTOP, which nothing can catch, once it has said this"})
    if not plan.leader_works:
        return [*proven, {"habit": "launcher", "proof": "no thread of it prints or writes; its worker does"}]
    from uncooperative_runner.display import show
    from uncooperative_runner.spend import begin

    return proven + show(leader) + begin(leader)


def _once_working(leader: Member) -> None:
    plan = leader.options.plan
    if plan.ends_itself:
        leader.in_thread(lambda: _end_when_done(leader))
    if plan.gets_stuck:
        leader.in_thread(lambda: _get_stuck_later(leader))
    if plan.stops_itself:
        os.kill(os.getpid(), signal.SIGSTOP)


def _get_stuck_later(leader: Member) -> None:
    time.sleep(WORK_DONE_S)
    leader.get_stuck()


def _end_when_done(leader: Member) -> None:
    time.sleep(WORK_DONE_S)
    leader.leave(0, "its work is done")
