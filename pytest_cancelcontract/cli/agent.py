"""``cancelcontract run --agent``: the roles reversed, an agent's own command line is what is tried.

Runs its trials itself and not through pytest: there is no test of anybody's here, and an agent takes none of a wrapper's options.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shutil
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cancelcontract.cli.folder import folder_settings
from pytest_cancelcontract.cli.given_terms import given_terms
from pytest_cancelcontract.cli.parser import BadUse, Parser, flag
from pytest_cancelcontract.option_table import OPTIONS, TERM_ROWS

if TYPE_CHECKING:
    from pytest_cancelcontract.agents.profiles import Agent
    from pytest_cancelcontract.agents.trials import Trial
    from pytest_cancelcontract.agents.verdict import AgentResult
    from pytest_cancelcontract.finding import Level
    from pytest_cancelcontract.terms import Terms

FAILED, INTERRUPTED = 1, 2
JOBS = 2
_TAKEN = frozenset({"cancel_scenario", "cancel_level", "cancel_jobs", "cancel_report", "cancel_history"})
"""The options of a wrapper's drills that are an agent's as well, beside the terms."""


def add_options(parser: Parser) -> None:
    """Add what ``run`` takes for an agent."""
    group = parser.add_argument_group(
        "an agent's own command line, in place of a wrapper",
        "It runs in a workspace, a home and a TMPDIR of its own against a provider on loopback that\n"
        "is part of this tool, and is cancelled by a signal while it streams, while a tool of it\n"
        "runs, and at its start. It needs neither an account nor the network. Of your environment it\n"
        "gets PATH, the locale and little else, so that no key of yours is ever sent; the profiles\n"
        "give their agent a dummy for a key, and for a command line of your own --agent-env names\n"
        "what it needs.",
    )
    group.add_argument(
        "--agent",
        metavar="PROFILE|CMD",
        help="claude-code, codex, codex-sandbox, gemini-cli or opencode, found on PATH; or a command line, with {prompt}, {provider} (a"
        " URL), {workspace} and {home}. --scenario chooses its trials: core, all, an id or a pattern such as 'tool-*-term'",
    )
    group.add_argument(
        "--agent-allow",
        action="append",
        default=[],
        metavar="NAME=REASON",
        help="a helper that may outlive the agent, by its name in the process table, and why; told in the report, repeatable",
    )
    group.add_argument(
        "--agent-env",
        action="append",
        default=[],
        metavar="NAME",
        help="a variable of your environment that the agent gets as well; told in the report, repeatable",
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for."""

    agent: Agent
    trials: Sequence[Trial]
    terms: Terms
    level: Level
    histories: Path
    origin: str
    reports: Sequence[Path]
    jobs: int
    fails_at_most: int
    verbosity: int
    rerun: str


@dataclass(slots=True)
class _Told:
    """What came of one trial: a result, or why it could not be run."""

    trial: Trial
    result: AgentResult | None = None
    error: str = ""


def main(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Try the agent; returns 0 where everything that counts is kept, 1 where something is not or could not be tried, 2 where interrupted.

    Raises:
        BadUse: an option is refused.
    """
    wanted = _read(options, command)
    if options.collect_only:
        print("\n".join(f"{one.id}: {one.moment.words}, by {one.way.words}" for one in wanted.trials))
        return 0
    _refuse_what_is_not_installed(wanted.agent)
    from pytest_cancelcontract.recorder.client import why_no_drills_here

    if missing := why_no_drills_here():
        raise BadUse(missing)
    told: list[_Told] = []
    try:
        _try_all(wanted, told)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        _conclude(wanted, told)
        return INTERRUPTED
    return _conclude(wanted, told)


# ---------------------------------------------------------------------- what was asked for


def _read(options: argparse.Namespace, command: Sequence[str]) -> _Wanted:
    from pytest_cancelcontract.adapters.words import BadCommand
    from pytest_cancelcontract.agents.profiles import agent_of
    from pytest_cancelcontract.agents.trials import UnknownTrial, select
    from pytest_cancelcontract.cli.run import join_words

    if command:
        raise BadUse("--agent says what is tried, and a command behind -- is a wrapper: give one of the two")
    _refuse_a_wrappers(options)
    settings, origins = folder_settings(Path.cwd())
    try:
        _refuse_an_unknown_name(options.agent)
        agent = agent_of(options.agent, origin="--agent").allowing(_allowed(options.agent_allow)).passing(_names(options.agent_env))
        chosen = select(options.cancel_scenario or ())
    except (BadCommand, UnknownTrial) as error:
        raise BadUse(str(error)) from None
    trials = [one for one in chosen if not options.keyword or options.keyword in one.id]
    if not trials:
        raise BadUse("no trial is left to be run by --scenario and -k")
    jobs = options.cancel_jobs if options.cancel_jobs is not None else JOBS
    if jobs < 1:
        raise BadUse(f"--jobs must be at least 1, got {jobs}")
    history = getattr(options, "cancel_history", None) or settings.get("cancel_history") or ".cancelcontract"
    origin = "--history" if options.cancel_history else origins.get("cancel_history", "the default")
    level = _level(options, settings, origins)
    at_most = 1 if options.exitfirst else options.maxfail or len(trials)
    terms = given_terms(options)
    reports = _reports(options.cancel_report)
    verbosity = options.verbose - options.quiet
    rerun = join_words(["cancelcontract", "run", "--agent", options.agent, *_again(options)])
    return _Wanted(agent, trials, terms, level, Path(history).absolute(), origin, reports, jobs, at_most, verbosity, rerun)


def _refuse_a_wrappers(options: argparse.Namespace) -> None:
    for row in OPTIONS:
        if getattr(options, row.key, None) is not None and row.key not in _TAKEN:
            raise BadUse(f"{flag(row)} is about a wrapper, and --agent tries an agent's own command line")


def _refuse_an_unknown_name(given: str) -> None:
    """A single word is a profile, or a program that is there; anything else would fail in every trial alike."""
    from pytest_cancelcontract.agents.profiles import PROFILES

    is_name = not any(mark in given for mark in " /{\t")
    if is_name and all(given != one.id for one in PROFILES) and shutil.which(given) is None:
        raise BadUse(f"{given!r} from --agent is no profile and no program here; the profiles are {', '.join(one.id for one in PROFILES)}")


def _refuse_what_is_not_installed(agent: Agent) -> None:
    """Once, and not in every trial alike."""
    program = agent.command.words[0]
    if "{" in program:
        return
    if os.sep in program:
        # As a trial does, which starts it in its workspace.
        path = Path.cwd() / program
        if shutil.which(path) is None:
            why = "is not executable" if path.is_file() else "is a folder" if path.is_dir() else "does not exist"
            raise BadUse(f"{program!r} from --agent {why}")
    elif shutil.which(program) is None:
        install = f"{program} is not on PATH: npm install -g {agent.package}"
        raise BadUse(install if agent.package else f"{program!r} from --agent is not on PATH")


def _allowed(words: Sequence[str]) -> dict[str, str]:
    allowed = {}
    for word in words:
        name, _, reason = word.partition("=")
        if not name or not reason.strip():
            raise BadUse(
                f"--agent-allow takes a name and a reason, as in --agent-allow 'helperd=serves the next run as well', got {word!r}"
            )
        allowed[name] = reason.strip()
    return allowed


def _names(words: Sequence[str]) -> Sequence[str]:
    for word in words:
        if not word or "=" in word:
            raise BadUse(f"--agent-env takes the name of a variable, whose value it has already, got {word!r}")
    return words


def _level(options: argparse.Namespace, settings: Mapping[str, str], origins: Mapping[str, str]) -> Level:
    from pytest_cancelcontract.finding import Level

    given = options.cancel_level or settings.get("cancel_level") or Level.MUST
    if given not in set(Level):
        raise BadUse(f"cancel_level must be one of {', '.join(Level)}, got {given!r} from {origins.get('cancel_level', '--level')}")
    return Level(given)


def _again(options: argparse.Namespace) -> list[str]:
    """The options that a trial would be run with again."""
    words = []
    for row in (*TERM_ROWS.values(), *(one for one in OPTIONS if one.key == "cancel_level")):
        if (value := getattr(options, row.key)) is not None:
            words += [flag(row), f"{value:g}" if isinstance(value, float) else str(value)]
    words += [word for one in options.agent_allow for word in ("--agent-allow", one)]
    return [*words, *(word for one in options.agent_env for word in ("--agent-env", one))]


def _reports(given: Sequence[str] | None) -> list[Path]:
    """Where reports go; how they are written, the end of the name says."""
    from pytest_cancelcontract.report.files import why_not

    for name in given or ():
        if problem := why_not(Path(name), name):
            raise BadUse(f"{problem} from --report")
    return [Path(name) for name in given or ()]


# ---------------------------------------------------------------------- trying


def _try_all(wanted: _Wanted, told: list[_Told]) -> None:
    """Run the trials, ``jobs`` at once, and say of each how it went; a Ctrl-C ends those that are under way."""
    from pytest_cancelcontract.conduct import Lanes
    from pytest_cancelcontract.drill import DrillError
    from pytest_cancelcontract.recorder.client import Recorder, RecorderFailed
    from pytest_cancelcontract.session import make_history_folder

    try:
        folder = make_history_folder(wanted.histories, wanted.origin)
        recorder = Recorder.start()
    except (DrillError, RecorderFailed, OSError) as error:
        raise BadUse(str(error)) from None
    lanes, enough = Lanes(wanted.jobs), threading.Event()
    try:
        with concurrent.futures.ThreadPoolExecutor(wanted.jobs) as pool:
            under_way = [pool.submit(_one, wanted, recorder, one, folder, lanes, enough) for one in wanted.trials]
            try:
                for done in concurrent.futures.as_completed(under_way):
                    if (one := done.result()) is not None:
                        told.append(one)
                        _say(wanted, one)
                        if sum(map(_is_red(wanted), told)) >= wanted.fails_at_most:
                            enough.set()
            except BaseException:
                # The pool waits for its threads: they end once the recorder, which ends the agents, is gone.
                enough.set()
                recorder.close()
                raise
    finally:
        recorder.close()
        for stays in recorder.left:
            print(f"cancelcontract run: could not be removed: {stays}", file=sys.stderr)


def _one(wanted: _Wanted, recorder: Any, trial: Trial, folder: Path, lanes: Any, enough: threading.Event) -> _Told | None:
    from pytest_cancelcontract.agents.verdict import try_agent
    from pytest_cancelcontract.drill import DrillError
    from pytest_cancelcontract.recorder.client import RecorderFailed

    if enough.is_set():
        return None
    try:
        result = try_agent(
            *(recorder, wanted.agent, trial, wanted.terms),
            history=folder / f"{trial.id}.jsonl",
            lanes=lanes,
            progress=_progress(wanted, trial),
        )
    except (DrillError, RecorderFailed) as error:
        return None if enough.is_set() else _Told(trial, error=str(error))
    except Exception as error:  # a fault of ours: what the other trials have shown must not be lost for it
        return _Told(trial, error=_internal(error))
    result.rerun = f"{wanted.rerun} --scenario {trial.id}"
    return _Told(trial, result)


def _internal(error: Exception) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"an internal error: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"


def _progress(wanted: _Wanted, trial: Trial) -> Callable[[str, float], None]:
    from pytest_cancelcontract.report.text import RUNS_ONCE_MORE, progress_line

    def say(stage: str, at_most_s: float) -> None:
        if wanted.verbosity > 0 or (wanted.verbosity == 0 and stage.endswith(RUNS_ONCE_MORE)):
            print(progress_line(trial.id, stage, at_most_s), flush=True)

    return say


def _say(wanted: _Wanted, one: _Told) -> None:
    if wanted.verbosity < 0:
        return
    if one.result is None:
        print(f"{one.trial.id}: could not be tried", flush=True)
        return
    from pytest_cancelcontract.agents import report

    print("\n".join([f"{one.trial.id}: {_verdict(one.result)}", *report.lines(one.result)]), flush=True)


def _verdict(result: AgentResult) -> str:
    """In the words of the table, and all that is not kept: a SHOULD as well, whether it fails or not."""
    from pytest_cancelcontract.finding import Level, Verdict
    from pytest_cancelcontract.report.text import with_clauses

    row = result.row
    parts = [(verdict, level) for verdict in (Verdict.BROKEN, Verdict.INCONCLUSIVE) for level in (Level.MUST, Level.SHOULD)]
    found = [(one[0], [check for check in row["checks"] if (check["verdict"], check["level"]) == one]) for one in parts]
    return "; ".join(with_clauses(verdict, some) for verdict, some in found if some) or str(row["verdict"])


def _failures(wanted: _Wanted, result: AgentResult) -> list[Any]:
    from pytest_cancelcontract.judging import failures

    return list(failures(result.result.checks, level=wanted.level, fails_not_covered=False, expected={}))


def _is_red(wanted: _Wanted) -> Callable[[_Told], bool]:
    return lambda one: one.result is None or bool(_failures(wanted, one.result))


# ---------------------------------------------------------------------- the end


def _conclude(wanted: _Wanted, told: list[_Told]) -> int:
    """Write the reports; print what is not kept in full, then the table.

    Raises:
        BadUse: a report could not be written, which keeps none of the others from it.
    """
    from pytest_cancelcontract.report import text

    order = {trial.id: number for number, trial in enumerate(wanted.trials)}
    told.sort(key=lambda one: order[one.trial.id])
    rows = [_row(one) for one in told]
    unwritten = _write_reports(wanted, rows)
    for one in told:
        _print_failures(wanted, one)
    print("\n".join(["", f"agent: {wanted.agent.name}", *text.summary(rows)]))
    if unwritten:
        raise BadUse("; ".join(unwritten))
    return FAILED if any(map(_is_red(wanted), told)) else 0


def _write_reports(wanted: _Wanted, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write all that can be written, and say of each other why not."""
    from pytest_cancelcontract.report.files import write_report

    unwritten = []
    for path in wanted.reports:
        try:
            write_report(path, rows, terms=wanted.terms.as_dict())
        except OSError as error:
            unwritten.append(f"the report could not be written to {path}: {error.strerror or error}")
        except Exception as error:  # a fault of ours in one kind of report must not cost the others, nor what is printed
            unwritten.append(f"the report could not be written to {path}: {_internal(error)}")
    return unwritten


def _print_failures(wanted: _Wanted, one: _Told) -> None:
    from pytest_cancelcontract.report.text import failure_message, plain

    if one.result is None:
        print(f"\nthe trial {one.trial.id} could not be run, so no clause was judged: {plain(one.error)}")
        return
    found = _failures(wanted, one.result)
    for number, failure in enumerate(found):
        is_last = number == len(found) - 1
        history = one.result.history if is_last else None
        print(f"\n{failure_message(failure.check, history, rerun=one.result.rerun if is_last else '')}")


def _row(one: _Told) -> dict[str, Any]:
    if one.result is None:
        return {"scenario": one.trial.id, "verdict": "inconclusive", "error": one.error}
    return {**one.result.row, "expected": {}}
