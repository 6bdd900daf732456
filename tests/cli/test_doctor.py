"""``cancelcontract doctor``: it proves on real drills what it says, and says it where a machine sees less."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_cancelcontract import cli, controls
from pytest_cancelcontract.cli import command, doctor
from pytest_cancelcontract.doctor import probes
from pytest_cancelcontract.doctor.probes import Sight
from pytest_cancelcontract.doctor.proof import SHOWN_BY, prove
from pytest_cancelcontract.finding import Verdict
from pytest_cancelcontract.recorder.clock import Clock

WITHIN_S = 50
UNSHARE = shutil.which("unshare")
NOBODY = 65534


def a_doctor(*words: str) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    command = [sys.executable, "-m", "pytest_cancelcontract.cli", "doctor", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def wrapped(folder: Path, name: str, control: Path, arguments: str) -> Path:
    """A control under other arguments: ``arguments`` is what it gets, in terms of ``given``."""
    path = folder / name
    path.write_text(
        f"import runpy, sys\ngiven = sys.argv[1:]\nsys.argv = [{str(control)!r}, *{arguments}]\n"
        f"runpy.run_path({str(control)!r}, run_name='__main__')\n"
    )
    return path


# ---------------------------------------------------------------------- the proof


def test_a_machine_on_which_drills_run_is_proven_to_tell_kept_from_broken() -> None:
    done = a_doctor()
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split("  ") for line in done.stdout.splitlines()]
    for name in ("pidfd", "peer pidfd", "process table", "open files", "change times", "lateness", "kept control", "broken control"):
        assert sum(line[0] == name for line in lines) == 1, done.stdout
    assert "deaf-child is found kept" in done.stdout
    assert "deaf-child is found broken; no-survivors: pid" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("proven: ")


def test_controls_that_are_not_as_they_should_be_are_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever takes any two wrappers for kept and broken proves nothing: here each plays the other's part."""
    kept = wrapped(tmp_path, "kept.py", controls.BROKEN, "given[1:]")
    broken = wrapped(tmp_path, "broken.py", controls.KEPT, "['0.3', *given]")
    proofs = prove(tmp_path, kept=kept, broken=broken)
    found = {one.name: one.result.verdict for one in proofs if one.result is not None}
    assert found == {"kept": Verdict.BROKEN, "broken": Verdict.KEPT}
    assert not any(one.holds for one in proofs)
    assert doctor.conclude(proofs, tmp_path) == doctor.NOT_PROVEN
    shown = capsys.readouterr().out
    assert "is found broken and not kept, as it is" in shown and "is found kept and not broken, as it is" in shown
    assert shown.splitlines()[-1].startswith("not proven: ")


def test_one_control_alone_is_no_proof(tmp_path: Path) -> None:
    kept, broken = prove(tmp_path, broken=wrapped(tmp_path, "broken.py", controls.KEPT, "['0.3', *given]"))
    assert kept.holds and not broken.holds
    assert doctor.conclude((kept, broken), tmp_path) == doctor.NOT_PROVEN


def test_a_control_that_breaks_something_else_is_not_the_broken_one(tmp_path: Path) -> None:
    """It ends all that it started, and calls that a success: broken, but survivors were not witnessed."""
    path = tmp_path / "broken.py"
    path.write_text(
        f"import subprocess, sys, signal\nkept = subprocess.Popen([sys.executable, {str(controls.KEPT)!r}, '0.9', *sys.argv[1:]])\n"
        "signal.signal(signal.SIGTERM, lambda *_: kept.terminate())\nkept.wait()\nsys.exit(0)\n"
    )
    _, broken = prove(tmp_path, broken=path)
    assert broken.result is not None
    assert SHOWN_BY not in {check.clause for check in broken.result.checks if check.verdict is Verdict.BROKEN}
    assert not broken.holds


def test_a_control_that_cannot_be_drilled_is_told_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proofs = prove(tmp_path, kept=tmp_path / "is not there.py")
    assert not proofs[0].holds and "is not there.py" in proofs[0].error
    assert doctor.conclude(proofs, tmp_path) == doctor.NOT_PROVEN
    assert "could not be drilled: " in capsys.readouterr().out


@pytest.mark.parametrize("control", [controls.KEPT, controls.BROKEN])
def test_a_control_ends_with_what_it_runs(control: Path) -> None:
    """Without a cancel it is no wrapper that kills."""
    arguments = ["0.3"] if control == controls.KEPT else []
    words = [sys.executable, "-I", "-S", str(control), *arguments, sys.executable, "-c", "print('worked')"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stdout) == (0, "worked\n"), done.stderr


# ---------------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize("is_under_way", [False, True], ids=["at once", "while the controls run"])
def test_ctrl_c_is_one_line_and_leaves_nothing_behind(tmp_path: Path, is_under_way: bool) -> None:
    words = [sys.executable, "-m", "pytest_cancelcontract.cli", "doctor"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # A group of its own: Ctrl-C goes to all of it, as it does at a terminal.
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as child:
        sought = "cancelcontract-doctor-*/*.jsonl" if is_under_way else "cancelcontract-doctor-*"
        until_s = time.monotonic() + WITHIN_S
        while not list(tmp_path.glob(sought)) and time.monotonic() < until_s:
            time.sleep(0.01)  # polls: a folder tells nobody that it was made
        os.killpg(child.pid, signal.SIGINT)
        _, errors = child.communicate(timeout=WITHIN_S)
    assert (child.returncode, errors) == (130, "cancelcontract: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_the_histories_stay_where_they_are_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("pytest_cancelcontract.doctor.proof.prove", lambda _folder: ())
    for status, left in ((doctor.NOT_PROVEN, 1), (0, 1)):
        monkeypatch.setattr(doctor, "conclude", lambda *_, status=status: status)
        assert cli.main(["doctor"]) == status
        assert len(list(tmp_path.glob("cancelcontract-doctor-*"))) == left


@pytest.mark.parametrize(
    "words", [["list"], ["judge", "x"], ["show", "x"], ["explain", "x"], ["compare", "x", "y"], ["run"], ["doctor"], ["watch"]]
)
def test_ctrl_c_in_any_subcommand_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(next(one for one in command.SUBCOMMANDS if words[0] == one.NAME), "main", interrupted)
    try:
        status = cli.main(words)
    except KeyboardInterrupt:
        pytest.fail("it would end this run of pytest as well")
    assert status == 130
    assert capsys.readouterr() == ("", "cancelcontract: interrupted\n")


@pytest.mark.parametrize(
    "name", ["pytest_cancelcontract.cli.command", "pytest_cancelcontract.option_table", "pytest_cancelcontract.doctor.probes"]
)
def test_ctrl_c_while_modules_are_imported_is_one_line(name: str) -> None:
    code = (
        "import sys\nclass Interrupting:\n    def find_spec(self, name, *_):\n"
        f"        if name == {name!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\nfrom pytest_cancelcontract.cli import main\nsys.exit(main(['doctor']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert (done.returncode, done.stderr) == (130, "cancelcontract: interrupted\n")


# ---------------------------------------------------------------------- the probes


def test_every_row_says_what_it_means_and_what_to_do_where_something_is_hidden() -> None:
    found = probes.rows()
    assert len({row.name for row in found}) == len(found) == len(probes.PROBES) + 2
    for row in found:
        assert row.seen and row.means
        assert bool(row.do) == (row.sight is not Sight.ALL), row


def probed(name: str, *inside: str, before: str = "", by: str = "") -> str:
    """What a probe finds in other surroundings, as ``sight|seen``; skips where those cannot be had.

    ``inside`` are the options of unshare(1), ``before`` is what a shell does there first, and ``by`` goes before the interpreter.
    """
    if UNSHARE is None or os.geteuid() != 0:
        pytest.skip("takes unshare(1) and root")
    code = f"from pytest_cancelcontract.doctor import probes; row = probes.{name}(); print(row.sight, row.seen, sep='|')"
    words = [UNSHARE, *inside, "sh", "-c", f'{before} exec {by} "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN_S, check=False, cwd=Path(__file__).parents[2])
    if done.returncode:
        pytest.skip(f"such surroundings cannot be had here: {done.stderr.strip()[-200:]}")
    return done.stdout.strip()


def test_a_pid_namespace_is_not_the_whole_machine() -> None:
    assert probed("pid_namespace", "--pid", "--fork", "--mount-proc").startswith("in part|")


def test_a_limit_of_no_user_namespaces_is_seen() -> None:
    limit = "echo 0 > /proc/sys/user/max_user_namespaces &&"
    assert probed("user_namespaces", "--user", "--map-root-user", before=limit).startswith("no|")


def test_a_process_table_that_hides_others_is_seen() -> None:
    hide = "mount -t proc -o hidepid=2 proc /proc &&"
    seen = probed("all_processes", "--mount", before=hide, by=f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups")
    assert seen.startswith("in part|processes of other users are hidden (hidepid=")


def test_a_user_who_may_not_read_others_is_told_so() -> None:
    seen = probed("descriptors", "--mount", by="setpriv --bounding-set -sys_ptrace")
    assert seen == "in part|read of this user's own processes, and not of all others"


def test_a_late_machine_is_told_with_how_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is put below what any machine reaches: the words and the sight follow the measure."""
    monkeypatch.setattr(probes, "LATE_S", 0.0)
    row = probes.lateness(Clock())
    assert row.sight is Sight.PART and "ms at worst" in row.seen and row.do
