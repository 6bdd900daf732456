"""A drill's folder is removed to the last file, and nothing else is, whatever the drilled program has made of it."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.recorder import folders
from pytest_cancelcontract.recorder.client import OpenDrill, Recorder
from tests.recorder.conftest import TERMS, header

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
    namespace = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    if not shutil.which("unshare") or subprocess.run([*namespace, "sh", "-c", mount, "sh", place], capture_output=True).returncode:
        pytest.skip("no mount namespace is to be had here")
    environment = {**os.environ, "PYTHON": sys.executable, "CODE": code}
    ran = subprocess.run(
        [*namespace, "sh", "-c", f'{mount} && exec "$PYTHON" -c "$CODE" "$1"', "sh", place], env=environment, capture_output=True, text=True
    )
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
    assert here.left == [drill.run.folder]
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
        assert not drill.run.folder.exists()
    here.close()
    assert here.left == [] and not drill.run.folder.parent.exists()


def test_what_cannot_be_removed_is_told(here: Recorder, opened: Opened) -> None:
    drill = opened()
    (file := drill.run.workspace / "file").touch()
    if not shutil.which("chattr") or subprocess.run(["chattr", "+i", file], capture_output=True).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        here.discard(drill)
        assert here.left == [drill.run.folder]
        here.close()
        assert here.left == [drill.run.folder] and file.exists()
    finally:
        subprocess.run(["chattr", "-i", file], check=True)
