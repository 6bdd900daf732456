"""``cancelcontract watch``: the drill for a live system. The run is followed, a person presses the real button, nobody is signalled."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cancelcontract.cli.findings import exit_status, finding_lines
from pytest_cancelcontract.cli.given_terms import given_terms
from pytest_cancelcontract.cli.parser import USAGE_ERROR, Actions, BadUse, add_option
from pytest_cancelcontract.cli.watch_lines import WatchLines
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS
from pytest_cancelcontract.report.fleeting import FLEETING_S

if TYPE_CHECKING:
    from pytest_cancelcontract.adapters.words import Template
    from pytest_cancelcontract.follow.follower import Orders, Run
    from pytest_cancelcontract.history import History
    from pytest_cancelcontract.terms import Terms

NAME = "watch"
INTERRUPTED = 130
"""As a shell tells of a Ctrl-C."""
_SAYS = {
    "call": "how long one call of --press-with or --reported-with is waited for (default 30)",
    "outcome-map": "what the words that --reported-with prints mean: running, cancelling, cancelled, failed, succeeded",
    "level": "what the exit status counts; of a broken SHOULD it says nothing by default",
}
"""What the contract's options say here, where there is neither a test nor an adapter."""
CHANGES_TOLD = 10
"""So many changed paths are told one by one; the history has them all."""
LOOK_FOR_RUN_EVERY_S = 0.1
_TERMS = ("delivery", "grace", "kill_within", "early", "settle", "call")
_ROWS = {row.name: row for row in OPTIONS}
EXAMPLES = """\
examples:
  cancelcontract watch --pid 4711 --workspace /srv/jobs/7
  cancelcontract watch --match 'agent run --job 7' --workspace /srv/jobs/7 --press-with 'jobs cancel 7' --reported-with 'jobs state 7'
  cancelcontract watch --workspace /srv/jobs/7 -- ./agent run --job 7

By hand: press Enter, then at once the button in your console; what lies between the two counts as delivery. Press Enter again as soon as
the console says that the run is cancelled. Name the run's own first process and not the worker that outlives it: all that comes of that
process is the run. What had let go of it before it was followed is known only where it is in a session of the run's own.

exit status: 0 where everything that is judged is kept; 1 where something is broken; 2 where nothing is broken and something cannot be
said, or nothing was judged; 4 where there is no such run; 130 after Ctrl-C, which ends the watching alone.
"""


def add_to(actions: Actions) -> None:
    """Make its parser."""
    parser = actions.add_parser(
        NAME,
        help="drill a live system: follow a run while you press the real button",
        usage="cancelcontract watch [options] (--pid PID | --match WORDS | -- COMMAND…)",
        description="Follow a run of a live system: a process and all that comes of it. You press the real button in the real console,\n"
        "and learn who died when, who survived, and what changed in the workspace after the end was reported. Nobody is ever signalled.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=int, help="the first process of the run")
    which.add_argument("--match", metavar="WORDS", help="words in its command line; it is waited for (--start) where it is not there yet")
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="the folder it works in; without it no late writes are looked for")
    parser.add_argument("--press-on", type=Path, metavar="FILE", help="cancel counts as pressed when this file appears")
    parser.add_argument(
        "--press-with", metavar="CMD", help="press with this command: at once, or when the file of --press-on appears; {pid}, {workspace}"
    )
    parser.add_argument("--press-after", type=float, default=0.0, metavar="SECONDS", help="how long --press-with is put off (default 0)")
    parser.add_argument(
        "--reported-with", metavar="CMD", help="prints the outcome, asked again and again from the press on, instead of your second Enter"
    )
    parser.add_argument("--start", type=float, default=30.0, metavar="SECONDS", help="how long --match waits for the run (default 30)")
    for name in _TERMS:
        add_option(parser, TERM_ROWS[name], _SAYS.get(name, ""))
    for name in ("outcome-map", "level", "history"):
        add_option(parser, _ROWS[name], _SAYS.get(name, ""))


def main(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Follow the run, and print what happened.

    Raises:
        BadUse: what was given is refused, or there is no such run.
    """
    from pytest_cancelcontract.drill import DrillError
    from pytest_cancelcontract.finding import Level
    from pytest_cancelcontract.recorder.client import why_no_drills_here
    from pytest_cancelcontract.session import make_history_folder

    if lacks := why_no_drills_here():
        raise BadUse(lacks)
    terms, orders = given_terms(options), _orders(options)
    told = WatchLines()
    try:
        run = _run(options, command, told.say)
        root = options.cancel_history or Path(".cancelcontract")
        history = make_history_folder(root, "--history" if options.cancel_history else "the default") / "live.jsonl"
    except DrillError as error:
        raise BadUse(str(error)) from None
    except KeyboardInterrupt:
        return INTERRUPTED
    why = _follow(run, orders, terms, history, told)
    return _conclude(history, why, Level(options.cancel_level or Level.MUST), told)


# ---------------------------------------------------------------------- what is asked for


def _orders(options: argparse.Namespace) -> Orders:
    from pytest_cancelcontract.adapters.words import BadCommand, read_outcome_map
    from pytest_cancelcontract.follow.follower import Orders

    if options.press_on is not None and options.press_on.exists():
        raise BadUse(f"{options.press_on} from --press-on is there already, so that its coming can tell nothing")
    if options.cancel_outcome_map and options.reported_with is None:
        raise BadUse("--outcome-map explains the words of --reported-with, which is missing")
    try:
        outcomes = read_outcome_map(options.cancel_outcome_map, "--outcome-map")
        press, report = (_command(options, name) for name in ("press_with", "reported_with"))
    except BadCommand as error:
        raise BadUse(str(error)) from None
    if not 0 <= options.press_after < float("inf") or (options.press_after and press is None):
        raise BadUse(f"--press-after puts off --press-with by a finite number of seconds, got {options.press_after:g}")
    return Orders(press, options.press_on, options.press_after, report, outcomes)


def _command(options: argparse.Namespace, name: str) -> Template | None:
    from pytest_cancelcontract.adapters.words import Template
    from pytest_cancelcontract.follow.follower import BRACES

    if (given := getattr(options, name)) is None:
        return None
    option = f"--{name.replace('_', '-')}"
    command = Template.parse(given, allowed=BRACES, origin=option)
    if "workspace" in command.uses and options.workspace is None:
        raise BadUse(f"{option} has {{workspace}} in it, and there is no --workspace")
    if shutil.which(command.words[0]) is None:
        raise BadUse(f"there is no program {command.words[0]!r}, from {option}, that can be run")
    return command


def _run(options: argparse.Namespace, command: Sequence[str], say: Callable[[str], None]) -> Run:
    from pytest_cancelcontract.follow import target
    from pytest_cancelcontract.follow.follower import Run

    if sum([options.pid is not None, options.match is not None, bool(command)]) != 1:
        raise BadUse("say which run to follow, in one way: --pid PID, --match WORDS, or a command that starts it behind --")
    if options.workspace is not None and not options.workspace.is_dir():
        raise BadUse(f"{options.workspace} from --workspace is no folder")
    workspace = options.workspace.resolve() if options.workspace is not None else None
    if command:
        return Run(shlex.join(command), workspace, command=tuple(command))
    try:
        if options.pid is not None:
            return Run(f"pid {options.pid}", workspace, target.by_pid(options.pid))
        if not options.match.strip():
            raise BadUse("--match needs words that stand in the run's command line")
        return Run(options.match, workspace, _until_found(options.match, options.start, say), alike=options.match)
    except target.NoTarget as error:
        raise BadUse(str(error)) from None


def _until_found(words: str, within_s: float, say: Callable[[str], None]) -> Any:
    from pytest_cancelcontract.follow import target

    until_s, is_said = time.monotonic() + within_s, False
    while (found := target.by_words(words)) is None:
        if time.monotonic() > until_s:
            raise BadUse(f"no process has {words!r} in its command line, and none came within {within_s:g} s")
        if not is_said:
            say(f"waits for a process with {words!r} in its command line, {within_s:g} s at most")
            is_said = True
        time.sleep(LOOK_FOR_RUN_EVERY_S)
    return found


# ---------------------------------------------------------------------- the run


def _follow(run: Run, orders: Orders, terms: Terms, history: Path, told: WatchLines) -> str:
    from pytest_cancelcontract.follow.follower import CannotFollow, follow

    folder = history.parent.resolve()
    clauses = _clauses(orders, run)
    if run.command:
        told.say(f"the output of the command goes into {folder / 'output-1.txt'}")
    told.say(f"follows {run.name} until all of it is gone, or {terms.deadline_after_press_s:g} s from the press have passed")

    async def watched() -> str:
        task = asyncio.ensure_future(
            follow(run, orders, terms, clauses=clauses, history=history, folder=folder, tell=told.hear, say=told.say)
        )
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, _Once(task.cancel))
        return await task

    try:
        return asyncio.run(watched())
    except CannotFollow as error:
        raise BadUse(str(error)) from None


class _Once:
    """Does a thing the first time that it is asked to: a second Ctrl-C must not cut the end short."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


def _clauses(orders: Orders, run: Run) -> tuple[str, ...]:
    """What can be judged of a live run: nobody told it what to do, and it tells nobody what it noticed.

    When an outcome that a person tells came to be is known to a second or so, which is too little for a limit of two.
    """
    return (
        "no-survivors",
        *(["outcome-reported"] if orders.report is not None else []),
        "outcome-not-early",
        *(["outcome-not-success"] if orders.report is not None else []),
        *(["no-late-writes"] if run.workspace is not None else []),
    )


# ---------------------------------------------------------------------- what became of it


def _conclude(path: Path, why: str, level: str, told: WatchLines) -> int:
    from pytest_cancelcontract.contract import judge
    from pytest_cancelcontract.history import load

    history = load(path)
    if why == "interrupted":
        print(f"\ninterrupted: nobody was touched, nothing is judged; the history so far: {path}")
        return INTERRUPTED
    if told.pressed_s is None:
        print(f"\nnothing is judged: {why}", file=sys.stderr)
        return USAGE_ERROR if "nobody is there" in why else 2
    checks = judge(history)
    print()
    for line in _course(history):
        print(line)
    print()
    for line in finding_lines(history, checks):
        print(line)
    return exit_status([checks], level)


def _course(history: History) -> Iterator[str]:
    """What happened, in a few lines: who died, who lives, what was reported, and what changed behind it."""
    from pytest_cancelcontract.clauses import words
    from pytest_cancelcontract.clauses.facts import Facts
    from pytest_cancelcontract.clauses.late_changes import late_changes
    from pytest_cancelcontract.report.text import plain
    from pytest_cancelcontract.terms import Terms

    facts = Facts(history, Terms.from_dict(history.header["terms"]))
    living = sorted((one for one in facts.first_run if not one.death.is_closed), key=lambda one: not one.is_leader)
    # One that has only just come is gone before anybody could end it, and its pid may be another's by then.
    staying = [one for one in living if one.is_leader or facts.watched_until_s - one.born_s >= FLEETING_S] or living
    dead = [one for one in facts.first_run if one.death.is_closed and one.born_s <= facts.pressed_s <= one.death.latest_s]
    last = f", the last one {words.after_press(facts, max(one.death.latest_s for one in dead))}" if dead else ""
    yield f"died      {len(dead)} of the processes that were alive at the press{last}"
    names, pids = words.several([f"pid {one.pid} ({one.role})" for one in staying]), " ".join(one.pid for one in staying)
    if passing := len(living) - len(staying):
        names += f"; and {passing} short-lived {'one' if passing == 1 else 'ones'}"
    yield plain(f"survived  {names} (not touched; to end them: kill -KILL {pids})" if living else "survived  nobody")
    report = facts.report
    hand = ", by hand, so to a second or so" if "report" in history.header["by_hand"] else ""
    yield f"reported  {f'{report.outcome!r} {words.after_press(facts, report.answered_s)}{hand}' if report else 'not as far as was told'}"
    if report is not None:
        gone = facts.gone
        yield f"gone      {words.after_press(facts, gone.latest_s)}" + (
            f", {words.seconds(abs(gone.latest_s - report.answered_s))} {'after' if gone.latest_s > report.answered_s else 'before'} that"
            if gone.is_closed
            else ""
        )
    yield "notice    not known: a live run tells nobody which signals it gets"
    if "no-late-writes" in history.header["clauses"]:
        paths = sorted({one.path for one in late_changes(facts).all if not one.ignored})
        entries = "1 entry" if len(paths) == 1 else f"{len(paths)} entries"
        yield plain(f"changed   {entries} of the workspace after the end was reported (or the deadline)")
        yield from (plain(f"          {path}") for path in paths[:CHANGES_TOLD])
        if len(paths) > CHANGES_TOLD:
            yield f"          and {len(paths) - CHANGES_TOLD} more in the history"
