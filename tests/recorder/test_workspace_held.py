"""Files that a living process holds are read, since what it writes into them may change no time; and who holds them is told."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import holders, workspace
from pytest_cancelcontract.recorder.holders import Hold
from tests.recorder.conftest import Start
from tests.recorder.watched import Holder, Watched, holding, line

MEMORY = Path("/dev/shm")
PAGE = 4096


def is_in_memory(folder: Path) -> bool:
    """Whether it lies on a tmpfs, where a store into a dirty page never changes a time."""
    return any(line.split()[1] == str(folder) and line.split()[2] == "tmpfs" for line in Path("/proc/self/mounts").read_text().splitlines())


@pytest.fixture(params=["disk", "memory"])
def above(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A folder on each kind of file system."""
    if request.param == "disk":
        yield tmp_path
        return
    if not is_in_memory(MEMORY) or not os.access(MEMORY, os.W_OK):
        pytest.skip("this machine has no /dev/shm in memory to write to")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def watched(above: Path) -> Watched:
    return Watched(above)


@pytest.fixture
def holder() -> Iterator[Holder]:
    with holding() as one:
        yield one


def all_can_be_read() -> bool:
    """Whether this user sees the descriptors of every process; where not, somebody may hold the file unseen."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        try:
            for descriptor in folder.iterdir():
                descriptor.stat()
        except PermissionError:
            return False
        except OSError:
            continue
    return True


def dirty_mapping(watched: Watched, holder: Holder, content: str = "a" * PAGE) -> Path:
    """A file that the holder has mapped, with a page that is dirty already."""
    file = watched.folder / "uncooperative-mapped.log"
    file.write_text(content)
    holder.map(file)
    holder.store(0, content[:1])
    watched.living = [holder.identity]
    return file


def test_a_store_into_a_dirty_page_is_found_by_reading_and_its_holder_is_told(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    watched.take()
    assert watched.changes() == {}
    before = file.stat().st_ctime_ns
    holder.store(1, "b")
    assert file.stat().st_ctime_ns == before, "if the page was written back meanwhile, this shows nothing"
    change = watched.changes()[file.name]
    assert (change.what, change.by_reading) == ("content", True)
    assert {hold.subject for hold in change.holders} == {str(holder.identity)}
    assert {hold.how for hold in change.holders} == {"mapping", "descriptor"}, "Python's mapping keeps a descriptor"
    assert change.others_hold is (False if all_can_be_read() else None)
    assert change.span_s is not None and change.span_s[0] < change.span_s[1]
    assert change.before_sha256 not in {"", change.sha256}


def test_without_reading_what_is_held_such_a_store_is_missed(above: Path, holder: Holder) -> None:
    watched = Watched(above, reads_held=False)
    dirty_mapping(watched, holder)
    watched.take()
    holder.store(1, "b")
    assert watched.changes() == {}


def test_the_marks_in_a_mapped_page_that_were_stored_since_count(watched: Watched, holder: Holder) -> None:
    slot = line(7, 1).rstrip("\n").ljust(127) + "\n"
    file = dirty_mapping(watched, holder, slot * (PAGE // 128))
    watched.take()
    for number in (0, 1, 2):
        holder.store(128 * number, line(7, 2 + number).rstrip("\n").ljust(127) + "\n")
    assert watched.changes()[file.name].writers == ((7, "tok-1", 3),)


def test_what_was_stored_by_one_that_has_died_since_the_last_look_is_found(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    watched.take()
    holder.store(1, "b")
    holder.process.kill()
    holder.process.wait()
    watched.living = []
    change = watched.changes()[file.name]
    assert (change.by_reading, {hold.subject for hold in change.holders}) == (True, {str(holder.identity)})


def test_a_file_that_is_held_under_two_names_is_told_under_both(watched: Watched, holder: Holder) -> None:
    file = watched.folder / "one"
    file.write_text("a" * PAGE)
    (watched.folder / "two").hardlink_to(file)
    holder.map(file)
    holder.store(0, "a")
    watched.living = [holder.identity]
    watched.take()
    holder.store(1, "b")
    assert set(watched.changes()) == {"one", "two"}


def test_a_file_that_is_renamed_while_it_is_mapped_is_read_where_it_is(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    watched.take()
    file.rename(watched.folder / "elsewhere")
    holder.store(1, "b")
    change = watched.changes()["elsewhere"]
    assert (change.what, change.was) == ("renamed", str(file))
    assert change.before_sha256 not in {"", change.sha256}


def test_a_file_that_is_not_at_its_path_any_more_is_not_in_the_workspace(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    watched.take()
    file.unlink()
    holder.store(1, "b")
    assert [one.what for one in watched.changes().values()] == ["deleted"]
    file.write_text("of somebody else")
    (change,) = watched.changes().values()
    assert change.holders == ()


def test_a_file_that_was_touched_and_not_written_is_meta_where_it_was_read(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    watched.take()
    os.utime(file)
    assert watched.changes()[file.name].what == "meta"


def test_a_file_that_another_process_has_open_too_is_not_the_holders_alone(watched: Watched, holder: Holder, start: Start) -> None:
    file = watched.folder / "shared"
    file.write_text("aaaa")
    holder.open(file, os.O_WRONLY)
    start(f"file = open({str(file)!r}, 'a'); print('ready', flush=True); input()")
    watched.living = [holder.identity]
    watched.take()
    holder.write(0, "b")
    change = watched.changes()["shared"]
    assert (change.others_hold, change.by_reading, {hold.how for hold in change.holders}) == (True, False, {"descriptor"})


def test_a_file_that_is_open_for_reading_only_is_not_held(watched: Watched, holder: Holder) -> None:
    file = watched.folder / "file"
    file.write_text("aaaa")
    holder.open(file, os.O_RDONLY)
    watched.living = [holder.identity]
    watched.take()
    file.write_text("bbbb")
    assert watched.changes()["file"].holders == ()


def test_a_file_that_is_opened_after_the_handover_counts_from_when_it_was_first_read(watched: Watched, holder: Holder) -> None:
    watched.living = [holder.identity]
    watched.take()
    file = watched.folder / "new"
    holder.open(file, os.O_WRONLY | os.O_CREAT)
    holder.write(0, "a")
    first = watched.changes()["new"]
    assert (first.what, first.before_sha256 == first.sha256) == ("created", True)
    holder.write(0, "b")
    again = watched.changes()["new"]
    assert again.before_sha256 == first.sha256 != again.sha256


def test_a_process_whose_main_thread_has_ended_is_read_by_another(watched: Watched, start: Start) -> None:
    file = watched.folder / "file"
    file.write_text("aaaa")
    program = f"""
import ctypes, os, threading
file = open({str(file)!r}, "r+b", buffering=0)
leaving = threading.Event()
def work():
    leaving.wait()
    while open("/proc/self/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
        pass
    print("ready", flush=True)
    os.read(0, 1)
threading.Thread(target=work).start()
leaving.set()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = start(program)
    seen = workspace.look(str(watched.folder))
    identity = Identity(process.pid, _start_of(process.pid))
    assert holders.held_in(seen.entries, [identity]).by_path == {str(file): {Hold(str(identity), "descriptor")}}


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[19])


def test_one_that_is_gone_or_whose_pid_is_anothers_holds_nothing(watched: Watched, holder: Holder) -> None:
    file = dirty_mapping(watched, holder)
    seen = workspace.look(str(watched.folder))
    other = Identity(holder.identity.pid, holder.identity.start - 1)
    assert holders.held_in(seen.entries, [other, Identity(2**22 - 1, 1)]) == holders.Held({}, ())
    assert str(file) in holders.held_in(seen.entries, [holder.identity]).by_path


READS_ANOTHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import holders, workspace
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
seen = workspace.look(sys.argv[2])
print(holders.held_in(seen.entries, [Identity.parse(sys.argv[3])]))
print(holders.others_hold(seen.entries, list(seen.entries)[:1], []))
"""


def test_one_that_may_not_be_read_is_named(holder: Holder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    root = str(Path(holders.__file__).parents[2])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        command = [sys.executable, "-c", READS_ANOTHER, root, folder, str(holder.identity)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert ran.stdout.splitlines() == [f"Held(by_path={{}}, unread=('{holder.identity}',))", f"{{'{folder}': None}}"], ran.stderr


def test_nothing_is_read_where_nobody_lives(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    (watched.folder / "file").write_text("x")
    monkeypatch.setattr(holders, "held_in", lambda *_: pytest.fail("looked for holders"))
    watched.take()
    (watched.folder / "file").write_text("y")
    assert watched.changes()["file"].what == "content"


def test_the_c_library_is_asked_for_times_of_birth() -> None:
    """Where it has none, a number that is used again is taken for the same file."""
    assert hasattr(ctypes.CDLL(None), "statx")
