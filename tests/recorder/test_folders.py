"""A drill's folder is removed to the last file, and nothing else is, whatever the drilled program has made of it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cancelcontract.recorder import client, folders, mounts
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from tests.recorder.conftest import TERMS, header
from tests.recorder.hidden_places import UNSHARE

DEEPER_THAN_A_STACK = 1100


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Path]:
    """Somebody else's folder, with one in it that is read-only; nothing in it may change."""
    place = tmp_path / "stranger"
    (place / "shut").mkdir(parents=True)
    (place / "shut" / "file").write_text("theirs")
    (place / "file").write_text("theirs")
    (place / "shut").chmod(0o500)
    before = _state(place)
    yield place
    assert _state(place) == before


def _state(place: Path) -> dict[str, int]:
    return {str(path): stat.S_IMODE(path.lstat().st_mode) for path in (place, *place.rglob("*"))}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A recorder's root with the folder of one drill."""
    (tmp_path / "base").mkdir()
    made = folders.make_root(tmp_path / "base")
    (made / "d1" / "workspace" / "inner").mkdir(parents=True)
    (made / "d1" / "workspace" / "file").touch()
    return made


def _swap(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}.old"))
    folder.symlink_to(target)


def _dig(folder: Path, depth: int, name: str = "d") -> None:
    """Folders in one another, which no path leads to: each is made from the one above."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


# ---------------------------------------------------------------------- links


def test_a_link_in_place_of_a_drills_folder_is_not_followed(root: Path, stranger: Path) -> None:
    _swap(root / "d1", stranger)
    assert not folders.remove(root / "d1")
    assert (root / "d1").is_symlink()
    assert folders.remove(root) and not root.exists()


@pytest.mark.parametrize("place", ["d1/workspace", "d1/workspace/inner"])
def test_a_link_in_a_drills_folder_goes_and_is_not_followed(root: Path, stranger: Path, place: str) -> None:
    _swap(root / place, stranger)
    assert folders.remove(root / "d1") and not (root / "d1").exists()


def test_a_link_in_place_of_the_root_is_not_followed(root: Path, stranger: Path) -> None:
    (theirs := stranger / "d1").mkdir(exist_ok=True)
    _swap(root, stranger)
    assert not folders.remove(root / "d1") and not folders.remove(root)
    assert theirs.exists() and root.is_symlink()
    theirs.rmdir()


def test_a_link_above_the_root_leads_to_another_root(root: Path, tmp_path: Path) -> None:
    (theirs := tmp_path / "other" / root.name / "d1").mkdir(parents=True)
    _swap(root.parent, tmp_path / "other")
    assert not folders.remove(root / "d1") and not folders.remove(root)
    assert theirs.exists()


def test_a_link_above_the_root_that_leads_to_it_is_the_users(root: Path, tmp_path: Path) -> None:
    _swap(root.parent, tmp_path / "base.old")
    assert folders.remove(root / "d1") and folders.remove(root)
    assert list((tmp_path / "base.old").iterdir()) == []


def test_another_folder_in_place_of_the_root_is_let_alone(root: Path) -> None:
    root.rename(root.with_name("moved"))
    (root / "d1").mkdir(parents=True)
    assert not folders.remove(root / "d1") and not folders.remove(root)
    assert (root / "d1").exists()


EXCHANGED = """
import itertools, os, stat, sys
from pathlib import Path
from pytest_cancelcontract.recorder import folders

base, at, seen, exchange = Path(sys.argv[1]), None, 0, None

def hook(event, _):
    global at, seen
    if at is None or event not in ("open", "os.scandir", "os.listdir", "os.chmod", "os.remove", "os.rmdir"):
        return
    seen += 1
    if seen == at:
        at = None
        exchange()

sys.addaudithook(hook)

def link():
    os.rename(target, f"{target}.old")
    os.symlink(stranger, target)

def move():
    os.rename(target, stranger / "moved")

for place, how in itertools.product(("d1", "d1/a", "d1/a/b"), (link, move)):
    for number in itertools.count(1):
        stranger, target = base / "stranger", base / "root" / place
        (stranger / "shut").mkdir(parents=True)
        (stranger / "shut" / "file").touch()
        (stranger / "shut").chmod(0o500)
        (base / "root" / "d1" / "a" / "b" / "shut").mkdir(parents=True)
        (base / "root" / "d1" / "a" / "b" / "shut" / "file").touch()
        (base / "root" / "d1" / "a" / "b").chmod(0o500)
        def tried():
            try:
                how()
            except OSError:
                pass  # it has gone already
        exchange, seen, at = tried, 0, number
        folders.remove(base / "root" / "d1")
        is_over, at = at is not None, None
        where = f"{how.__name__} {place} {number}"
        assert (stranger / "shut" / "file").exists(), where
        assert stat.S_IMODE((stranger / "shut").stat().st_mode) == 0o500, where
        assert folders.remove(stranger) and folders.remove(base / "root"), where
        if is_over:
            break
    print(where)
"""


def test_nothing_outside_is_touched_whenever_a_folder_is_exchanged(tmp_path: Path) -> None:
    """Before each single call that opens, changes or removes something, for a link or by moving it to a stranger."""
    ran = subprocess.run([sys.executable, "-c", EXCHANGED, tmp_path], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(ran.stdout.splitlines()) == 6


def test_a_folder_is_removed_whatever_its_mode(root: Path) -> None:
    for place, mode in (("inner", 0o000), ("", 0o500)):
        (root / "d1" / "workspace" / place).chmod(mode)
    (root / "d1").chmod(0o100)
    assert folders.remove(root) and not root.exists()
    assert folders.remove(root)


# ---------------------------------------------------------------------- depth


@pytest.mark.usefixtures("digs")
@pytest.mark.parametrize("name", ["d", "d" * 100])
def test_depth_is_no_matter(root: Path, name: str) -> None:
    _dig(root / "d1", DEEPER_THAN_A_STACK, name)
    before = len([*Path("/proc/self/fd").iterdir()])
    folders.digests(root / "d1")
    assert folders.remove(root / "d1") and not (root / "d1").exists()
    assert len([*Path("/proc/self/fd").iterdir()]) == before


# ---------------------------------------------------------------------- mounts


def in_a_namespace(mount: str, code: str, place: Path) -> str:
    """Mount in a namespace of its own and run Python there, which both get the place; returns what Python printed."""
    namespace = (*UNSHARE, "--mount")
    if not shutil.which("unshare") or subprocess.run([*namespace, "sh", "-c", mount, "sh", place], capture_output=True).returncode:
        pytest.skip("no mount namespace is to be had here")
    environment = {**os.environ, "PYTHON": sys.executable, "CODE": code}
    words = [*namespace, "sh", "-c", f'{mount} && exec "$PYTHON" -c "$CODE" "$1"', "sh", place]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


REMOVED = """
import sys
from pathlib import Path
from pytest_cancelcontract.recorder import folders
assert not folders.remove(next(Path(sys.argv[1]).glob("base/ccd-*")) / "d1")
"""


def test_a_link_in_place_of_a_drills_folder_is_not_followed_to_a_mount(root: Path, stranger: Path, tmp_path: Path) -> None:
    (stranger / "mounted").mkdir()
    _swap(root / "d1", stranger)
    in_a_namespace('mount -t tmpfs none "$1/stranger/mounted"', REMOVED, tmp_path)
    assert (stranger / "file").read_text() == (stranger / "shut" / "file").read_text() == "theirs"
    (stranger / "mounted").rmdir()


@pytest.mark.parametrize("place", ["d1", "d1/workspace/inner"])
def test_what_is_mounted_from_the_same_file_system_is_not_entered(root: Path, stranger: Path, tmp_path: Path, place: str) -> None:
    in_a_namespace(f'mount --bind "$1/stranger" "$1"/base/ccd-*/{place}', REMOVED, tmp_path)
    assert (stranger / "file").exists() and (root / place).exists()
    assert (root / "d1" / "workspace" / "file").exists() == (place == "d1")


def fuse(place: str) -> str:
    """Mount a file system whose server never answers: who asks it anything waits for ever; and once descriptor 3 is shut, gets an error."""
    options = "fd=3,rootmode=40000,user_id=0,group_id=0"
    return f'exec 3<>/dev/fuse && mount -i -t fuse -o {options} none "$1"/base/ccd-*/d1/workspace/{place}'


@pytest.mark.parametrize(
    "mount", [fuse("1/m"), " && ".join([fuse("1/m"), fuse("2/m"), fuse("3/m"), "exec 3>&-"])], ids=["hangs", "is-dead"]
)
def test_a_mounted_file_system_that_does_not_answer_is_left_and_the_rest_is_removed(root: Path, tmp_path: Path, mount: str) -> None:
    workspace = root / "d1" / "workspace"
    for path in (workspace / above / name for above in "123" for name in "amz"):
        path.mkdir(parents=True)
    in_a_namespace(mount, REMOVED, tmp_path)
    stays = [workspace / above / "m" for above in "123" if f"/{above}/m" in mount]
    assert sorted(workspace.rglob("*")) == sorted([path.parent for path in stays] + stays)


DIGESTED = """
import sys
from pathlib import Path
from pytest_cancelcontract.recorder import folders
print(sorted(folders.digests(next(Path(sys.argv[1]).glob("base/ccd-*")) / "d1" / "workspace")))
"""


@pytest.mark.parametrize(("place", "seen"), [("", []), ("inner", ["file"]), (".git", ["file"]), (".git/refs", ["file"])])
def test_a_mounted_file_system_that_does_not_answer_is_not_hashed(root: Path, tmp_path: Path, place: str, seen: list[str]) -> None:
    (root / "d1" / "workspace" / ".git" / "refs").mkdir(parents=True)
    assert in_a_namespace(fuse(place), DIGESTED, tmp_path) == f"{seen}\n"


@pytest.mark.parametrize("fails", ["of", "_which"])
def test_a_folder_that_cannot_be_asked_is_left_and_the_rest_is_removed(root: Path, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    workspace = root / "d1" / "workspace"
    for path in (workspace / above / name for above in "123" for name in "amz"):
        path.mkdir(parents=True)
    where: Any = mounts if fails == "of" else folders
    right = getattr(where, fails)

    def asked(descriptor: int) -> Any:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == "m":
            raise OSError(errno.ENOTCONN, "not connected")
        return right(descriptor)

    monkeypatch.setattr(where, fails, asked)
    assert not folders.remove(root / "d1")
    assert sorted(workspace.rglob("*")) == sorted([*workspace.glob("[123]"), *workspace.glob("[123]/m")])
    assert len([*workspace.glob("*/m")]) == 3


# ---------------------------------------------------------------------- the source


def _make_fifo(path: Path) -> None:
    os.mkfifo(path)


def _make_giant(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(32 << 30)


def _make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 107 letters
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("make", [_make_fifo, _make_giant, _make_socket])
def test_only_a_piece_of_a_regular_file_is_hashed(root: Path, make: Callable[[Path], None]) -> None:
    (file := root / "d1" / "workspace" / "file").write_text("text")
    before = folders.digests(root / "d1")
    file.unlink()
    make(file)
    began_s = time.monotonic()
    after = folders.digests(root / "d1")
    assert after.keys() == before.keys() == {"workspace/file"} and after != before
    assert time.monotonic() - began_s < 5


def test_a_link_is_hashed_whatever_the_bytes_that_it_has(root: Path) -> None:
    (root / "d1" / "link").symlink_to(os.fsdecode(b"nowhere-\xff"))
    assert folders.digests(root / "d1")["link"]


def test_a_files_length_counts_where_it_is_too_long_to_be_hashed(root: Path) -> None:
    seen = []
    for length in (folders.DIGEST_AT_MOST, folders.DIGEST_AT_MOST + 1):
        os.truncate(root / "d1" / "workspace" / "file", length)
        seen.append(folders.digests(root / "d1"))
    assert seen[0] != seen[1]


# ---------------------------------------------------------------------- of a recorder


Opened = Callable[[], OpenDrill]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Recorder]:
    """A recorder whose root lies in the test's folder."""
    (tmp_path / "base").mkdir()
    one = Recorder.start(tmp_path / "base")
    yield one
    one.close()


@pytest.fixture
def opened(here: Recorder, tmp_path: Path) -> Opened:
    """Open a drill and finish it."""

    def go() -> OpenDrill:
        drill = here.open_drill(header=header("quiet"), habits=["quiet"], terms=TERMS, history=tmp_path / "quiet.jsonl")
        here.finish(drill, "over")
        return drill

    return go


def test_a_drill_whose_folder_became_a_link_is_told_and_goes_with_its_recorder(here: Recorder, opened: Opened, stranger: Path) -> None:
    drill = opened()
    _swap(drill.run.folder, stranger)
    here.discard(drill)
    here.close()
    assert here.left == [] and not drill.run.folder.parent.exists()


def test_a_killed_recorders_root_that_became_a_link_is_told(here: Recorder, opened: Opened, stranger: Path) -> None:
    root = opened().run.folder.parent
    os.kill(here.pid, signal.SIGKILL)
    _swap(root, stranger)
    here.close()
    assert here.left == [root]


@pytest.mark.usefixtures("digs")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_deep_folder_goes_with_its_drill_and_with_its_recorder(here: Recorder, opened: Opened, is_killed: bool) -> None:
    drill = opened()
    _dig(drill.run.workspace, DEEPER_THAN_A_STACK)
    if is_killed:
        os.kill(here.pid, signal.SIGKILL)
    else:
        here.discard(drill)
    here.close()
    assert here.left == [] and not drill.run.folder.parent.exists()


def test_what_cannot_be_removed_is_told(here: Recorder, opened: Opened) -> None:
    drill = opened()
    (file := drill.run.workspace / "file").touch()
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", file], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        here.discard(drill)
        here.close()
        assert here.left == [drill.run.folder] and file.exists()
    finally:
        subprocess.run(["chattr", "-i", file], check=True)


def test_a_recorder_that_does_not_answer_costs_a_discarded_drill_nothing(here: Recorder, opened: Opened) -> None:
    drill = opened()
    os.kill(here.pid, signal.SIGSTOP)
    began_s = time.monotonic()
    here.discard(drill)
    assert time.monotonic() - began_s < 5
    os.kill(here.pid, signal.SIGCONT)
    here.close()
    assert here.left == [] and not drill.run.folder.parent.exists()


SLOW = """
import time
from pytest_cancelcontract.recorder import folders
folders.STEP_WITHIN_S, right = 1.0, folders.remove
def slow(folder):
    for _ in range({seconds} * 20):
        time.sleep(0.05)
        folders._steps[0] += {steps}
    return right(folder)
folders.remove = slow
"""
Slow = Callable[[int, int], None]


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Have the next recorder's removals take so many seconds, and get on by so many steps at a time."""

    def go(seconds: int, steps: int) -> None:
        (tmp_path / "site").mkdir()
        (tmp_path / "site" / "sitecustomize.py").write_text(SLOW.format(seconds=seconds, steps=steps))
        monkeypatch.syspath_prepend(tmp_path / "site")

    return go


def test_a_removal_that_hangs_holds_up_no_drill_and_is_told_at_the_end(slow: Slow, request: pytest.FixtureRequest) -> None:
    slow(100, 0)
    here, opened = request.getfixturevalue("here"), request.getfixturevalue("opened")
    began_s, drills = time.monotonic(), [opened()]
    here.discard(drills[0])
    drills.append(opened())
    here.close()
    assert time.monotonic() - began_s < 25
    assert here.left == [drills[0].run.folder] and all(drill.run.folder.exists() for drill in drills)
    assert here._process.returncode == 0


def test_many_folders_that_stay_are_told_by_their_root(slow: Slow, request: pytest.FixtureRequest) -> None:
    slow(100, 0)
    here, opened = request.getfixturevalue("here"), request.getfixturevalue("opened")
    drills = [opened() for _ in range(client.NAMED_AT_MOST + 1)]
    for drill in drills:
        here.discard(drill)
    here.close()
    assert here.left == [drills[0].run.folder.parent]


def test_a_removal_that_gets_on_is_waited_for(slow: Slow, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENT_AT_MOST_S", 2.0)
    slow(3, 1)
    here, opened = request.getfixturevalue("here"), request.getfixturevalue("opened")
    drill = opened()
    here.discard(drill)
    here.close()
    assert here.left == [] and not drill.run.folder.parent.exists()
    assert here._process.returncode == 0


@pytest.mark.slow
def test_a_removal_that_gets_on_is_not_waited_for_for_ever(slow: Slow, request: pytest.FixtureRequest) -> None:
    slow(1000, 1)
    (where := request.getfixturevalue("tmp_path") / "site" / "sitecustomize.py").write_text(
        where.read_text() + "folders.REMOVES_WITHIN_S = 2.0\n"
    )
    here, opened = request.getfixturevalue("here"), request.getfixturevalue("opened")
    drill = opened()
    here.discard(drill)
    here.close()
    assert here.left == [drill.run.folder]


def test_a_recorder_that_not_even_sigkill_ends_is_not_waited_for(here: Recorder, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in uninterruptible sleep; its folders, in which it may hang, are not entered."""
    root, asked = opened().run.folder.parent, list[Path]()

    class Undying:
        pid, returncode = here.pid, None

        def wait(self, timeout: float) -> int:
            raise subprocess.TimeoutExpired("recorder", timeout)

        def kill(self) -> None:
            pass

    recorder = here._process
    monkeypatch.setattr(here, "_process", Undying())
    monkeypatch.setattr(client, "SILENT_AT_MOST_S", 0.2)
    monkeypatch.setattr(folders, "remove", asked.append)
    monkeypatch.setattr(folders, "is_there", lambda path: path == root)
    here.close()
    assert here.left == [root] and asked == []
    recorder.wait(timeout=30)


def test_folders_in_which_the_plugins_own_removal_hangs_are_told(here: Recorder, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that was killed leaves them to the plugin."""
    root, goes_on = opened().run.folder.parent, threading.Event()
    monkeypatch.setattr(folders, "remove", lambda _folder: goes_on.wait(60))
    monkeypatch.setattr(folders, "STEP_WITHIN_S", 0.3)
    os.kill(here.pid, signal.SIGKILL)
    began_s = time.monotonic()
    here.close()
    goes_on.set()
    assert time.monotonic() - began_s < 20 and here.left == [root]
