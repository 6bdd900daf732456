"""Cancel real agent command lines in every trial, and write down what each leaves behind.

    python -m benchmarks.measure_agents [--only PROFILE]… [--trial ID]… [--into FOLDER] [--no-install] [--jobs N]

They are installed from npm into a folder of their own. What cannot be had is named in the result, with the reason.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent_install import CACHE, NotInstalled, environment, install, version_of
from pytest_cancelcontract.agents.profiles import PROFILES, Agent
from pytest_cancelcontract.agents.report import facts_of, left_over
from pytest_cancelcontract.agents.trials import MOMENTS, WAYS, Moment, Trial, select
from pytest_cancelcontract.agents.verdict import AgentResult, try_agent
from pytest_cancelcontract.clauses.no_late_writes import late_writes
from pytest_cancelcontract.clauses.requests import requests_of
from pytest_cancelcontract.clauses.spend_stops import late_tokens
from pytest_cancelcontract.conduct import Lanes
from pytest_cancelcontract.drill import DrillError
from pytest_cancelcontract.finding import Level, Verdict
from pytest_cancelcontract.recorder.client import Recorder
from pytest_cancelcontract.terms import settle_terms

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "docs" / "measured" / "agents.md"
TERMS: Mapping[str, float] = {"grace": 3.0, "kill_within": 2.0, "retry": 3.0, "start": 60.0}
JOBS = 3
AGENT = "the agent"
"""How the process that was started is called here, whatever the process table calls it."""


@dataclass(frozen=True, slots=True)
class Row:
    """An agent with its version and what was seen in each trial, by the trial's id."""

    agent: Agent
    version: str
    cells: Mapping[str, AgentResult | str]


# ---------------------------------------------------------------------- the trials


def measure(agents: Sequence[Agent], trials: Sequence[Trial], programs: Path, *, jobs: int) -> list[Row]:
    """Every trial of every agent, ``jobs`` at once."""
    recorder, lanes, given = Recorder.start(), Lanes(), environment(programs)
    terms = settle_terms({name: (value, "benchmarks/measure_agents.py") for name, value in TERMS.items()})

    def one(agent: Agent, trial: Trial, folder: Path) -> AgentResult | str:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return try_agent(recorder, agent, trial, terms, history=folder / f"{trial.id}.jsonl", environment=given, lanes=lanes)
        except DrillError as error:
            print(f"{agent.name} in {trial.id}: {error}", flush=True)
            return "not tried"

    with tempfile.TemporaryDirectory() as histories, ThreadPoolExecutor(jobs) as pool:
        try:
            rows = []
            for agent in agents:
                wanted = {trial.id: pool.submit(one, agent, trial, Path(histories, agent.id)) for trial in trials}
                cells = {id: job.result() for id, job in wanted.items()}
                rows.append(Row(agent, version_of(agent, programs), cells))
                for id, cell in cells.items():
                    print(f"{agent.name} {id}: {cell_text(cell)}", flush=True)
            return rows
        finally:
            pool.shutdown(cancel_futures=True)
            recorder.close()


# ---------------------------------------------------------------------- the words


def cell_text(cell: AgentResult | str | None) -> str:
    """``clean, 143``; or what is left, whether it writes, what it spends, and the status: ``bash, agent-tool; writes; 143``."""
    if cell is None or isinstance(cell, str):
        return cell or "-"
    facts = facts_of(cell.history)
    names = dict.fromkeys(AGENT if one.is_leader else one.role for one in left_over(facts))
    begun = sum(one.began_s > facts.handover_s for one in requests_of(facts))
    parts = [f"**{', '.join(names)}**"] if names else ["clean"]
    parts += ["writes"] if late_writes(facts) else []
    parts += [f"{tokens} tokens"] if "spend-stops" in cell.broken and (tokens := late_tokens(facts)) else []
    parts += [f"{begun} new request{'' if begun == 1 else 's'}"] if begun else []
    unclear = [check.clause for check in cell.result.checks if check.verdict is Verdict.INCONCLUSIVE and check.level is Level.MUST]
    parts += [f"{', '.join(unclear)}?"] if unclear and facts.report is not None else []
    return "; ".join([*parts, _status(cell)])


def _status(cell: AgentResult) -> str:
    ended = cell.history.first("process-table", "wrapper-exited")
    if ended is None or (facts := facts_of(cell.history)).end_s <= ended.at_s:
        return "does not end"
    status = int(ended.data["status"])
    took_s = ended.at_s - facts.pressed_s
    after = f" after {took_s:.1f} s" if took_s >= 1 else ""
    return f"{_SIGNALS.get(-status, f'signal {-status}') if status < 0 else status}{after}"


_SIGNALS = {1: "by HUP", 2: "by INT", 15: "by TERM", 9: "by KILL"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_result(rows: Sequence[Row], missing: Mapping[str, str], *, jobs: int) -> str:
    """The page: machine, versions, a table an agent, what it means, and how to see it again."""
    versions = table(["agent", "version", "npm", "command"], (_about(row) for row in rows))
    tables = "\n\n".join(f"## {row.agent.name} {row.version}\n{_of_agent(row)}" for row in rows)
    terms = ", ".join(f"{name} {value:g} s" for name, value in TERMS.items())
    absent = "".join(f"- {name}: {why}\n" for name, why in missing.items())
    return f"""# What is left of a cancelled agent

Measured on {datetime.date.today().isoformat()} by `make measure-agents`: Linux {platform.release()}, {os.cpu_count()} cores,
Python {platform.python_version()}, as {"root" if os.geteuid() == 0 else "an ordinary user"}. Terms: {terms}, the others as by
default; {jobs} trials at once. Each agent ran headless in a workspace, a home and a TMPDIR of its own, against the scripted provider
on loopback with a dummy key, and got one signal from outside. What was left was watched for {TERMS["retry"]:g} s beyond the deadline, and
then ended.

{versions}

A cell says what of it lived on after the deadline, by the names in the process table (*{AGENT}* is the process that was started,
`agent-tool` what the provider had it run, `bash` or `sh` the shell around that), whether that wrote on, what the provider produced
for it after it was over, and the exit status. *clean*: nothing was left, written or spent.

{tables}

## What stands out
{_what_stands_out(rows)}
{f"{chr(10)}## What could not be had{chr(10)}{absent}" if absent else ""}
## What lies around
Files that each left in its home and its TMPDIR, in the trial `agent-streaming-term`:

{table(["agent", "home", "TMPDIR"], (_around(row) for row in rows))}

## To see it again
`make measure-agents` installs them into `~/.cache/pytest-cancelcontract/agents` and writes this page;
`python -m benchmarks.measure_agents --only codex --trial tool-term` tries one and prints what it sees. With an agent of your own on
PATH: `cancelcontract run --agent claude-code`, or `--agent 'my-agent --url {{provider}} {{prompt}}'`.
"""


def _about(row: Row) -> list[str]:
    agent = row.agent
    return [agent.id, row.version, f"`{agent.package}`", f"`{' '.join(agent.command.words)}`"]


def _of_agent(row: Row) -> str:
    ways = [way.words.replace("SIG", "") for way in WAYS]
    return table(["cancelled", *ways], ([moment.words, *_cells_of(row, moment)] for moment in MOMENTS))


def _cells_of(row: Row, moment: Moment) -> list[str]:
    return [cell_text(row.cells.get(Trial(moment, way).id)) for way in WAYS]


def _what_stands_out(rows: Sequence[Row]) -> str:
    """How often a tool lived on, and how often the provider was paid."""
    lines = []
    for row in rows:
        seen = [one for one in row.cells.values() if isinstance(one, AgentResult)]
        tools = [one for one in seen if one.trial.moment.placement is not None]
        alive = sum("no-survivors" in one.broken for one in tools)
        spent = sum("spend-stops" in one.broken for one in seen)
        success = sum("outcome-not-success" in one.broken for one in seen)
        lines.append(
            f"- {row.agent.id}: in {alive} of {len(tools)} trials with a tool something lived on; in {spent} of {len(seen)} the provider"
            f" went on; in {success} the exit status was 0."
        )
    return "\n".join(lines)


def _around(row: Row) -> list[str]:
    cell = row.cells.get("agent-streaming-term")
    seen = cell.history.last("workspace", "lies-around") if isinstance(cell, AgentResult) else None
    if seen is None:
        return [row.agent.id, "-", "-"]
    return [row.agent.id, *(_found(seen.data["places"][name]) for name in ("home", "temporary"))]


def _found(place: Mapping[str, object]) -> str:
    names = [str(one) for one in place["names"]]  # type: ignore[attr-defined]
    extra = [f"{label}: {len(place[label])}" for label in ("sockets", "locks") if place[label]]  # type: ignore[arg-type]
    return "; ".join([f"{place['files']} files" + (f" in {', '.join(f'`{name}`' for name in names)}" if names else ""), *extra])


def main() -> int:
    """Install, try, and write the page; with ``--only`` or ``--trial`` print what is seen instead."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="PROFILE", help="only these agents; nothing is written")
    parser.add_argument("--trial", action="append", metavar="ID", help="only these trials; nothing is written")
    parser.add_argument("--into", type=Path, default=CACHE, help=f"where they are installed (default {CACHE})")
    parser.add_argument("--no-install", action="store_true", help="try what is there")
    parser.add_argument("--jobs", type=int, default=JOBS, help="trials at once")
    options = parser.parse_args()
    agents = [one for one in PROFILES if not options.only or one.id in options.only]
    missing: dict[str, str] = {}
    programs = options.into / "node_modules" / ".bin"
    for agent in () if options.no_install else agents:
        try:
            programs = install([agent.package], options.into)
        except NotInstalled as error:
            missing[agent.id] = str(error)
    rows = measure([one for one in agents if one.id not in missing], select(options.trial or ["all"]), programs, jobs=options.jobs)
    if not options.only and not options.trial:
        RESULT.write_text(write_result(rows, missing, jobs=options.jobs))
        print(f"written: {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
