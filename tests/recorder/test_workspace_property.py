"""Whatever is done to a workspace after the handover is reported, and nothing else; the oracle is a copy of it, byte for byte.

``CANCELCONTRACT_EXAMPLES`` sets how many trees are tried on each file system (60 by default).
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cancelcontract.recorder import folders
from pytest_cancelcontract.recorder.since_handover import Change
from tests.recorder.test_workspace_held import MEMORY, PAGE, is_in_memory
from tests.recorder.watched import Holder, Watched, holding

EXAMPLES = int(os.environ.get("CANCELCONTRACT_EXAMPLES", "60"))
Snapshot = dict[str, tuple[int, bytes]]
"""By path relative to the workspace: type and mode, and the contents or the text of a link."""


def snapshot(folder: Path) -> Snapshot:
    """All there is, by nothing that the witness uses: no times, no inodes, no sizes."""
    return {str(path.relative_to(folder)): (path.lstat().st_mode, _content(path)) for path in (folder, *folder.rglob("*"))}


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return os.fsencode(path.readlink())
    return path.read_bytes() if path.is_file() else b""


class Tree:
    """A workspace that is changed at random. ``touched`` are the paths that anything was done to, their folders included."""

    def __init__(self, folder: Path, holder: Holder, key: str) -> None:
        self.folder = folder
        self.touched: set[str] = set()
        self._holder = holder
        self._key = key
        self._numbers = 0
        for name in ("a", "b", "inner/c", "inner/deep/d", "other/e"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(name * 20)
        (folder / "empty").mkdir()
        (folder / "twin").hardlink_to(folder / "b")
        (folder / "link").symlink_to("a")
        self._mapped, self._early = folder / "inner" / "mapped", folder / "early"
        self._mapped.write_text("m" * PAGE)
        (folder / "mapped-too").hardlink_to(self._mapped)
        self._early.write_text("e" * 100)
        self._sizes = [os.open(path, os.O_RDONLY) for path in (self._mapped, self._early)]
        holder.map(self._mapped, f"m{key}")
        holder.open(self._early, os.O_WRONLY, f"d{key}")
        # From here on a store finds its page dirty, and changes no time.
        holder.store(0, "m", f"m{key}")

    def close(self) -> None:
        """Let go of what this side has open."""
        for descriptor in self._sizes:
            os.close(descriptor)

    def do(self, name: str, one: int, two: int) -> None:
        """Do something by name, to what two numbers pick; nothing where there is nothing to pick."""
        act: Callable[[int, int], None] = getattr(self, name)
        act(one, two)

    # --- Files --------------------------------------------------------------------------------------------------------

    def create(self, one: int, two: int) -> None:
        path = self._new(one)
        path.write_text(f"new {two}")
        self._touch(path)

    def rewrite_with_its_old_times(self, one: int, two: int) -> None:
        if path := self._file(one):
            before = path.stat()
            path.write_bytes(bytes([97 + two % 26]) * before.st_size)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            self._touch(path)

    def append(self, one: int, two: int) -> None:
        if path := self._file(one):
            with path.open("a") as file:
                file.write(f"more {two}")
            self._touch(path)

    def truncate(self, one: int, two: int) -> None:
        if path := self._file(one):
            os.truncate(path, two % 30)
            self._touch(path)

    def write_in_place(self, one: int, two: int) -> None:
        if path := self._file(one):
            with path.open("r+b") as file:
                file.seek(two % 10)
                file.write(b"IN PLACE")
            self._touch(path)

    def rename_file(self, one: int, two: int) -> None:
        path, target = self._file(one), self._file(two) if two % 3 == 0 else self._new(two)
        if path and target and path != target:
            self._touch(path, target)
            path.rename(target)

    def delete(self, one: int, _: int) -> None:
        if path := self._file(one):
            self._touch(path)
            path.unlink()

    def chmod(self, one: int, two: int) -> None:
        if path := self._pick([*self._files(), *self._folders()], one):
            path.chmod((0o700 if path.is_dir() else 0o600) | two % 0o100)
            self._touch(path)

    def symlink(self, one: int, two: int) -> None:
        path = self._new(one)
        path.symlink_to(f"target {two}")
        self._touch(path)

    def hardlink(self, one: int, two: int) -> None:
        if path := self._file(one):
            new = self._new(two)
            new.hardlink_to(path)
            self._touch(new)

    # --- Folders ------------------------------------------------------------------------------------------------------

    def mkdir(self, one: int, _: int) -> None:
        path = self._new(one)
        path.mkdir()
        self._touch(path)

    def rmdir(self, one: int, _: int) -> None:
        if path := self._pick([path for path in self._folders() if not any(path.iterdir())], one):
            self._touch(path)
            path.rmdir()

    def rename_folder(self, one: int, two: int) -> None:
        path, target = self._pick(self._folders(), one), self._new(two)
        if path and not target.is_relative_to(path):
            self._touch(path, *path.rglob("*"))
            path.rename(target)
            self._touch(target, *target.rglob("*"))

    def remake_folder(self, one: int, two: int) -> None:
        if path := self._pick(self._folders(), one):
            names = [item.name for item in path.iterdir()]
            self._touch(path, *path.rglob("*"))
            shutil.rmtree(path)
            path.mkdir()
            for name in names[: two % 3]:
                (path / name).write_text("made again")
                self._touch(path / name)

    # --- What the other process holds ---------------------------------------------------------------------------------

    def write_through_an_early_descriptor(self, one: int, two: int) -> None:
        self._holder.write(one % 50, f"early {two}", f"d{self._key}")
        self._touch_held(1)

    def store_through_an_early_mapping(self, one: int, two: int) -> None:
        at, text = one % 200, f"stored {two}"
        # A store behind the end of a file that was cut would kill its process.
        if at + len(text) <= os.fstat(self._sizes[0]).st_size:
            self._holder.store(at, text, f"m{self._key}")
            self._touch_held(0)

    # --- Picking ------------------------------------------------------------------------------------------------------

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_dir() and not path.is_symlink())

    def _file(self, number: int) -> Path | None:
        return self._pick(self._files(), number)

    def _new(self, number: int) -> Path:
        self._numbers += 1
        above = self._pick([self.folder, *self._folders()], number)
        assert above is not None
        return above / f"new-{self._numbers}"

    @staticmethod
    def _pick(paths: list[Path], number: int) -> Path | None:
        return paths[number % len(paths)] if paths else None

    def _touch(self, *paths: Path) -> None:
        """These, the folders that they are in, and all other names of the same files."""
        for path in paths:
            self.touched |= {str(one.relative_to(self.folder)) for one in (path, path.parent)}
            if path.is_file() and not path.is_symlink():
                self._touch_names(path.stat())

    def _touch_held(self, which: int) -> None:
        self._touch_names(os.fstat(self._sizes[which]))

    def _touch_names(self, status: os.stat_result) -> None:
        self.touched |= {str(path.relative_to(self.folder)) for path in self._files() if os.path.samestat(path.stat(), status)}


ACTS = (
    "create",
    "rewrite_with_its_old_times",
    "append",
    "truncate",
    "write_in_place",
    "rename_file",
    "delete",
    "chmod",
    "symlink",
    "hardlink",
    "mkdir",
    "rmdir",
    "rename_folder",
    "remake_folder",
    "write_through_an_early_descriptor",
    "store_through_an_early_mapping",
)
NUMBERS = st.integers(min_value=0, max_value=60)


@pytest.fixture(scope="module", params=["disk", "memory"])
def above(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder on each kind of file system."""
    if request.param == "disk":
        yield tmp_path_factory.mktemp("trees")
        return
    if not is_in_memory(MEMORY) or not os.access(MEMORY, os.W_OK):
        pytest.skip("this machine has no /dev/shm in memory to write to")
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def holder() -> Iterator[Holder]:
    with holding() as one:
        yield one


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), NUMBERS, NUMBERS), max_size=12))
def test_all_that_is_done_is_reported_and_nothing_else(above: Path, holder: Holder, acts: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory(dir=above) as folder:
        watched = Watched(Path(folder))
        tree = Tree(watched.folder, holder, Path(folder).name)
        watched.living = [holder.identity]
        assert watched.take() == {}
        before = snapshot(watched.folder)
        for act in acts:
            tree.do(*act)
        changes, after = watched.changes(), snapshot(watched.folder)
        assert missed(before, after, changes, watched.folder) == set()
        told = {path for path, change in changes.items()} | {_relative(one.was, watched.folder) for one in changes.values() if one.was}
        assert told <= tree.touched
        assert watched.changes() == changes, "a second look at the same thing tells the same"
        tree.close()
        folders.remove(watched.folder)


def missed(before: Snapshot, after: Snapshot, changes: dict[str, Change], folder: Path) -> set[str]:
    """Paths that differ and are not told; what was renamed is compared with what it was under its old path."""
    moves = {_relative(one.was, folder): path for path, one in changes.items() if one.was}
    moved: Snapshot = {}
    for path, what in before.items():
        above = next((one for one in (path, *map(str, Path(path).parents)) if one in moves), None)
        now = path if above is None else str(Path(moves[above]) / Path(path).relative_to(above))
        if now not in moved or above is not None:
            moved[now] = what
    olds = {now: path for path, now in moves.items()}
    differ = {path for path in moved.keys() | after.keys() if moved.get(path) != after.get(path)}
    # What was deleted from a renamed folder is told by the path that it had.
    gone = {str(Path(old) / Path(path).relative_to(now)): path for path in differ for now, old in olds.items() if _is_below(path, now)}
    told = set(changes) | {path for old, path in gone.items() if old in changes}
    return differ - told


def _is_below(path: str, above: str) -> bool:
    return Path(path).is_relative_to(above)


def _relative(path: str, folder: Path) -> str:
    return os.path.relpath(path, folder)


def test_the_oracle_misses_nothing_itself(tmp_path: Path) -> None:
    """An oracle that saw no difference would find every witness complete."""
    (tmp_path / "file").write_text("x")
    before = snapshot(tmp_path)
    (tmp_path / "file").write_text("y")
    (tmp_path / "new").symlink_to("z")
    after = snapshot(tmp_path)
    assert stat.S_ISLNK(after["new"][0])
    assert missed(before, after, {}, tmp_path) == {"file", "new"}
