"""``cancelcontract watch``: live systems are followed from outside, whoever presses, and nobody of them is touched."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_cancelcontract.cli.watch import INTERRUPTED
from pytest_cancelcontract.cli.watch_lines import WatchLines
from pytest_cancelcontract.contract import judge
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.history import History, load
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import process_table
from pytest_cancelcontract.recorder.reaper import Held

SYSTEM = Path(__file__).with_name("live_system.py")
FAST = ("--delivery=0.6", "--grace=0.4", "--kill-within=0.5", "--settle=0.2")
STATE = "sh -c 'kill -0 {pid} 2>/dev/null && echo GOING || echo ENDED'"
"""What a console would say that looks at the leader alone."""
REPORTED = (f"--reported-with={STATE}", "--outcome-map=ENDED=cancelled")
WITHIN_S = 40.0


@dataclass(frozen=True, slots=True)
class System:
    """A started live system: its leader and its children, each held."""

    workspace: Path
    processes: tuple[Identity, ...]

    @property
    def leader(self) -> int:
        return self.processes[0].pid

    def signals(self) -> list[str]:
        """What its children were sent, as far as they noted it."""
        path = self.workspace.parent / f"{self.workspace.name}.signals"
        return path.read_text().splitlines() if path.exists() else []

    def alive(self) -> list[int]:
        return [one.pid for one in self.processes if process_table.sight(one).alive]


Start = Callable[..., System]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a live system with children of these kinds; all of it is ended, by what is held, behind the test."""
    held: list[Held] = []
    children: list[subprocess.Popen[str]] = []

    def start(*kinds: str, own_session: bool = True) -> System:
        workspace = tmp_path / f"workspace-{len(children)}"
        workspace.mkdir()
        words = [sys.executable, "-I", "-S", str(SYSTEM), str(workspace), *kinds]
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=own_session)
        children.append(child)
        # A dead child that nobody waits for still answers to its pid.
        threading.Thread(target=child.wait, daemon=True).start()
        assert child.stdout is not None
        found = [process_table.identity_of(int(word)) for word in child.stdout.readline().split()[1:]]
        processes = tuple(one for one in found if one is not None)
        assert len(processes) == len(kinds) + 1
        held.extend(one for identity in processes if (one := Held.take(identity)) is not None)
        return System(workspace, processes)

    yield start
    for one in held:
        one.kill()
        one.release()
    for child in children:
        child.wait(timeout=10)
        if child.stdout is not None:
            child.stdout.close()


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest_cancelcontract.cli", "watch", *words]


@pytest.fixture
def watch(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command as a script runs it, with nobody at its input."""

    def watch(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*words), cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )

    return watch


Watch = Callable[..., subprocess.CompletedProcess[str]]


def ended(processes: Iterable[Identity | None]) -> int:
    """End these, and say how many were alive until then."""
    held = [one for identity in processes if identity is not None and (one := Held.take(identity)) is not None]
    alive = sum(not one.has_ended() for one in held)
    for one in held:
        one.kill()
        one.release()
    return alive


def history_in(folder: Path) -> History:
    (path,) = folder.glob(".cancelcontract/*/live.jsonl")
    return load(path)


def verdicts(folder: Path) -> dict[str, Verdict]:
    return {check.clause: check.verdict for check in judge(history_in(folder))}


# ---------------------------------------------------------------------- kept, and broken


def test_a_run_that_is_ended_as_a_whole_is_kept(start: Start, watch: Watch, tmp_path: Path) -> None:
    """The button ends the session: nobody is left, and the console says so afterwards."""
    system = start("plain", "plain")
    done = watch(*FAST, f"--pid={system.leader}", f"--workspace={system.workspace}", "--press-with=pkill -TERM -s {pid}", *REPORTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdicts(tmp_path) == dict.fromkeys(
        ["no-survivors", "outcome-reported", "outcome-not-early", "outcome-not-success", "no-late-writes"], Verdict.KEPT
    )
    assert not system.alive()
    assert "survived  nobody" in done.stdout and "died      3 of the processes" in done.stdout
    (died,) = re.findall(r"pid (\d+) \(\S+\) is dead", done.stdout)[:1]
    assert int(died) in {one.pid for one in system.processes}


def test_a_loop_over_short_commands_does_not_fill_the_screen(watch: Watch, tmp_path: Path) -> None:
    loop = "trap exit TERM; while :; do sleep 0.1; done"  # a shell with a trap outlives the command that it is at
    done = watch(*FAST, "--press-after=2", "--press-with=kill {pid}", *REPORTED, "--", "sh", "-c", loop)
    assert done.returncode == 0, done.stdout + done.stderr
    came = [seen for seen in history_in(tmp_path).of("process-table", "held") if seen.data["role"] != "leader"]
    assert len(came) >= 5
    lines = done.stdout.splitlines()
    assert sum("processes that live for less than 1 s come and go" in line for line in lines) == 1
    # The one that was there as cancel was pressed is told of: it comes, and it dies.
    assert sum("(sleep)" in line or "is of the run" in line for line in lines) <= 3


def test_a_survivor_is_told_with_what_it_wrote_and_left_alone(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("writer")
    survivor = system.processes[1]
    done = watch(*FAST, f"--pid={system.leader}", f"--workspace={system.workspace}", "--press-with=kill {pid}", *REPORTED)
    assert done.returncode == 1, done.stdout + done.stderr
    found = verdicts(tmp_path)
    assert found["no-survivors"] is found["outcome-not-early"] is Verdict.BROKEN
    # It opens its file anew for each line: nothing proves that it was not somebody else.
    assert found["no-late-writes"] is Verdict.INCONCLUSIVE
    assert f"to end them: kill -KILL {survivor.pid})" in done.stdout
    assert f"changed: {system.workspace / 'written.txt'}" in done.stdout
    assert system.alive() == [survivor.pid] and system.signals() == []


def test_changes_by_a_living_run_that_nothing_pins_on_it_do_not_acquit_it(start: Start, watch: Watch, tmp_path: Path) -> None:
    """A drilled run marks what it writes, so that changes without marks are the wrapper's; a live one marks nothing."""
    system = start("writer")
    watch(*FAST, f"--pid={system.leader}", f"--workspace={system.workspace}", "--press-with=kill {pid}", *REPORTED)
    (check,) = [one for one in judge(history_in(tmp_path)) if one.clause == "no-late-writes"]
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "written.txt" in check.finding.observed and str(system.processes[1].pid) in check.finding.observed


def test_a_quiet_survivor_has_written_nothing(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("quiet")
    done = watch(*FAST, f"--pid={system.leader}", f"--workspace={system.workspace}", "--press-with=kill {pid}", *REPORTED)
    assert done.returncode == 1
    assert verdicts(tmp_path)["no-late-writes"] is Verdict.KEPT
    assert system.signals() == []


def test_without_a_workspace_no_late_writes_are_judged(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("plain")
    done = watch(*FAST, f"--pid={system.leader}", "--press-with=pkill -TERM -s {pid}", *REPORTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no-late-writes" not in verdicts(tmp_path)


def test_a_success_that_is_reported_of_a_cancelled_run_is_broken(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("plain")
    said = (f"--reported-with={STATE}", "--outcome-map=ENDED=succeeded")
    done = watch(*FAST, f"--pid={system.leader}", "--press-with=pkill -TERM -s {pid}", *said)
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdicts(tmp_path)["outcome-not-success"] is Verdict.BROKEN


def test_a_file_that_appears_is_the_press(start: Start, tmp_path: Path) -> None:
    system = start("plain")
    pressed = tmp_path / "pressed"
    words = command(*FAST, f"--pid={system.leader}", f"--press-on={pressed}", *REPORTED)
    with subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        for line in watching.stdout:
            if "cancel counts as pressed when" in line:
                pressed.touch()
            if "cancel is pressed" in line:
                os.killpg(system.leader, signal.SIGTERM)
        assert watching.wait(timeout=WITHIN_S) == 0
    assert history_in(tmp_path).first("adapter", "pressed") is not None


# ---------------------------------------------------------------------- which run


def test_a_run_is_found_by_words_of_its_command_line(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("plain")
    done = watch(*FAST, f"--match={SYSTEM} {system.workspace}", "--press-with=pkill -TERM -s {pid}", *REPORTED)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"pid {system.leader} (" in done.stdout
    assert len(list(history_in(tmp_path).of("process-table", "held"))) == 2


def test_of_several_runs_with_the_same_words_none_is_chosen(start: Start, watch: Watch) -> None:
    one, other = start("plain"), start("plain")
    done = watch(f"--match={SYSTEM}", "--press-with=true")
    assert done.returncode == 4
    assert f"pid {one.leader}: " in done.stderr and f"pid {other.leader}: " in done.stderr
    assert len(one.alive()) == len(other.alive()) == 2


def test_what_shares_a_login_session_with_the_run_is_not_of_it(start: Start, watch: Watch, tmp_path: Path) -> None:
    """The tests' own session is the run's: neither they nor a bystander of theirs may be taken for it."""
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        system = start("plain", own_session=False)
        assert os.getsid(system.leader) == os.getsid(0)
        done = watch(*FAST, f"--pid={system.leader}", "--press-with=kill " + " ".join(str(one.pid) for one in system.processes), *REPORTED)
        held = {Identity.parse(one.subject) for one in history_in(tmp_path).of("process-table", "held")}
        assert held == set(system.processes)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        bystander.communicate(b"\n", timeout=10)


def test_a_command_is_started_and_followed_into_the_daemon_it_becomes(watch: Watch, tmp_path: Path) -> None:
    """It detaches within a moment, and is known by what it inherited; it is ended by nobody but this test."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script = f"(setsid {sys.executable} -I -S {SYSTEM} {workspace} --child quiet >/dev/null 2>&1 &); exec sleep 60"
    pressed = ("--press-with=kill {pid}", "--press-after=1")
    done = watch(*FAST, f"--workspace={workspace}", *pressed, *REPORTED, "--", "sh", "-c", script)
    survivors = [int(pid) for pid in re.findall(r"to end them: kill -KILL ([\d ]+)\)", done.stdout)[0].split()]
    assert ended(process_table.identity_of(pid) for pid in survivors) == 1
    assert done.returncode == 1 and len(survivors) == 1, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param([], "say which run to follow", id="nothing"),
        pytest.param(["--pid=4194304"], "there is no process with pid 4194304", id="nobody"),
        pytest.param(["--pid=1"], "is this command, or something above it", id="what is above"),
        pytest.param(["--pid=2", "--", "true"], "in one way", id="two ways"),
        pytest.param(["--match=is-nobody's-command-line", "--start=0.1"], "none came within 0.1 s", id="no such words"),
        pytest.param(["--workspace=/not/there", "--", "true"], "/not/there from --workspace is no folder", id="no workspace"),
        pytest.param(["--press-with=no-such-program", "--", "true"], "no program 'no-such-program', from --press-with", id="no button"),
        pytest.param(["--press-with=kill {id}", "--", "true"], "unknown brace {id}", id="a brace"),
        pytest.param(["--press-on=/", "--", "true"], "is there already", id="a file that is there"),
        pytest.param(["--press-after=1", "--", "true"], "--press-after puts off --press-with", id="nothing to put off"),
        pytest.param(["--outcome-map=A=cancelled", "--", "true"], "--reported-with, which is missing", id="words of nobody"),
        pytest.param(["--grace=inf", "--", "true"], "grace must be a finite number of seconds", id="a term"),
        pytest.param(["--press-with=true", "--", "/no/such/command"], "cannot start '/no/such/command'", id="no command"),
    ],
)
def test_what_is_refused_is_one_clear_line(watch: Watch, words: Sequence[str], message: str) -> None:
    done = watch(*words)
    assert done.returncode == 4 and message in done.stderr, done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_that_ends_before_the_press_judges_nothing(watch: Watch, tmp_path: Path) -> None:
    done = watch(f"--press-on={tmp_path / 'never'}", "--", "true")
    assert done.returncode == 2
    assert "the run ended by itself before cancel was pressed" in done.stderr


def test_with_nobody_at_the_input_there_is_nobody_to_press(start: Start, watch: Watch) -> None:
    system = start("plain")
    done = watch(f"--pid={system.leader}")
    assert done.returncode == 4 and "nobody is there to say" in done.stderr
    assert len(system.alive()) == 2


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("its environment", "its environment"),
        ("its session", "its session"),
        ("descent", "its descent"),
        ("its start", "its start"),
        ("start", "its start"),
        ("pid", "its pid"),
        ("command line", "its command line"),
    ],
)
def test_every_means_by_which_a_process_is_known_reads_well(capsys: pytest.CaptureFixture[str], by: str, words: str) -> None:
    WatchLines().hear("process-table", "held", "11:2", 1.0, {"comm": "sh", "role": "leader", "by": by})
    assert capsys.readouterr().out.strip() == f"pid 11 (sh) is of the run, known by {words}"


# ---------------------------------------------------------------------- by hand


class Terminal:
    """The command with a person before it, at a terminal of its own."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self.output = ""
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execv(sys.executable, command(*words))

    def until(self, words: str) -> None:
        """Read until these words have come."""
        until_s = time.monotonic() + WITHIN_S
        while words not in self.output:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, until_s - time.monotonic()))
            assert ready and self._read(), f"{words!r} did not come: {self.output}"

    def types(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def status(self) -> int:
        """Read to the end, and return the exit status."""
        while self._read():
            pass
        os.close(self._descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _read(self) -> bool:
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            if data := os.read(self._descriptor, 4096):
                self.output += data.decode(errors="replace")
                return True
        return False


def test_a_person_presses_and_says_when_the_console_tells_the_end(start: Start, tmp_path: Path) -> None:
    system = start("plain")
    person = Terminal(tmp_path, [*FAST, f"--pid={system.leader}", f"--workspace={system.workspace}"])
    person.until("press Enter here")
    person.types("\r")
    person.until("cancel is pressed (by hand)")
    os.killpg(system.leader, signal.SIGTERM)
    person.until(f"pid {system.processes[1].pid} (python")
    while system.alive():
        time.sleep(0.01)  # polls: nobody of another's run tells us of its end
    person.types("\r")
    assert person.status() == 0, person.output
    assert "the end is reported: cancelled (by hand)" in person.output
    assert verdicts(tmp_path) == dict.fromkeys(["no-survivors", "outcome-not-early", "no-late-writes"], Verdict.KEPT)


def test_a_person_who_is_told_too_early_has_the_survivor_named(start: Start, tmp_path: Path) -> None:
    system = start("quiet")
    person = Terminal(tmp_path, [*FAST, f"--pid={system.leader}"])
    person.until("press Enter here")
    person.types("\r")
    person.until("press Enter again")
    os.kill(system.leader, signal.SIGTERM)
    person.types("\r")
    assert person.status() == 1, person.output
    assert verdicts(tmp_path)["outcome-not-early"] is verdicts(tmp_path)["no-survivors"] is Verdict.BROKEN
    assert system.signals() == []


@pytest.mark.parametrize("when", ["before the press", "behind the press"])
def test_ctrl_c_ends_the_watching_and_harms_nobody(start: Start, tmp_path: Path, when: str) -> None:
    system = start("quiet")
    person = Terminal(tmp_path, [f"--pid={system.leader}", f"--workspace={system.workspace}"])
    person.until("press Enter here")
    if when == "behind the press":
        person.types("\r")
        person.until("press Enter again")
    person.types("\x03")
    person.types("\x03")
    assert person.status() == INTERRUPTED, person.output
    assert "interrupted: nobody was touched" in person.output and "Traceback" not in person.output
    assert len(system.alive()) == 2 and system.signals() == []
    assert history_in(tmp_path).last("drill", "ended") is not None


def test_ctrl_c_does_not_reach_a_command_that_was_started(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    person = Terminal(tmp_path, ["--", sys.executable, "-I", "-S", str(SYSTEM), str(workspace), "quiet"])
    person.until("press Enter here")
    path = Path(re.findall(r"goes into (\S+)", person.output)[0])
    while not path.read_text().startswith("ready"):
        time.sleep(0.01)  # polls: a file tells nobody that it was written
    processes = [process_table.identity_of(int(word)) for word in path.read_text().split()[1:]]
    person.types("\x03")
    assert person.status() == INTERRUPTED, person.output
    assert ended(processes) == 2
    assert not (tmp_path / "workspace.signals").exists()


def test_a_history_of_a_live_run_says_that_it_is_one(start: Start, watch: Watch, tmp_path: Path) -> None:
    system = start("plain")
    watch(*FAST, f"--pid={system.leader}", "--press-with=pkill -TERM -s {pid}", *REPORTED)
    header = history_in(tmp_path).header
    assert (header["scenario"], header["live"], header["by_hand"]) == ("live", True, [])
    (path,) = tmp_path.glob(".cancelcontract/*/live.jsonl")
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_the_press_is_told_and_judged_from_one_moment(start: Start, watch: Watch, tmp_path: Path) -> None:
    """What the lines count from as it happens is what the findings count from at the end."""
    system = start("plain")
    done = watch(*FAST, f"--pid={system.leader}", "--press-with=pkill -TERM -s {pid}", *REPORTED)
    history = history_in(tmp_path)
    pressed, returned = history.first("adapter", "pressed"), history.first("adapter", "cancel-returned")
    assert pressed is not None and returned is not None and pressed.at_s == pytest.approx(returned.data["acted_at_s"], abs=1e-5)
    (told,) = re.findall(r"\+(\d\.\d{3}) s  the end is reported", done.stdout)
    (said,) = re.findall(r"^reported  'cancelled' \+([\d.]+) s$", done.stdout, re.MULTILINE)
    assert float(told) == pytest.approx(float(said), abs=0.006)
