"""Keeps an eye on one drill's workspace: opens it where the runner finds itself, stamps the handover, notes what changes after it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import folders, workspace
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.since_handover import Change, Seen, SinceHandover

_RECORDERS_OWN = re.compile(r"source|workspace|agent|shim|bystander|next|control|output-\d+\.txt|host-[0-9a-f]+")
"""What a drill's folder holds beside the workspace by our own doing: folders of the drill and of its other runs, outputs, sockets."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Where the leader found itself: the folder, its device and inode as the leader saw them, and the user that the leader is."""

    folder: str
    inode: tuple[int, int]
    owner: int


class WorkspaceWatch:
    """The workspace witness of one drill; every look runs in a thread, since a large tree takes seconds.

    ``ignore`` are patterns, as the shell's, of paths relative to the workspace that are not told of. ``living`` says which processes of
    the run are alive, as far as is known: what they hold of the workspace is read at every look.
    """

    def __init__(
        self,
        journal: Journal,
        token: str,
        offered: Path,
        *,
        ignore: Sequence[str] = (),
        living: Callable[[], Sequence[Identity]] = lambda: (),
    ) -> None:
        self.living = living
        self.opened: Opened | None = None
        self._journal = journal
        self._token = token
        self._offered = offered
        self._ignore = tuple(ignore)
        self._handover: tuple[workspace.Moment, float] | None = None
        self._since: SinceHandover | None = None
        self._noted: dict[str, Change] = {}
        self._unread: tuple[str, ...] = ()
        self._looking = asyncio.Lock()

    def open(self, hello: Mapping[str, Any]) -> str:
        """Take the leader's word for where it is, but only as far as device and inode agree; returns a problem, or ``""``.

        In a mount namespace it may find the offered workspace at another path: then that one is what it means.
        """
        told, meant = str(hello.get("cwd", "")), (hello.get("cwd_dev"), hello.get("cwd_ino"))
        folder = next((path for path in (told, str(self._offered)) if _inode(path) == meant), None)
        if folder is None:
            self._journal.add("workspace", "missing", path=told)
            return f"the runner's working folder {told} {_why_not(told)}"
        dev, ino = int(meant[0] or 0), int(meant[1] or 0)
        self.opened = Opened(folder, (dev, ino), int(hello.get("uid") or 0))
        offered = _same_folder(folder, self._offered)
        marked = os.path.exists(os.path.join(folder, folders.MARKER))
        ignore = list(self._ignore)
        self._journal.add("workspace", "opened", path=folder, dev=dev, ino=ino, offered=offered, marked=marked, ignore=ignore)
        try:
            workspace.stamp(folder)
        except OSError as error:
            return f"no file for a time stamp can be made near {folder}: {error.strerror}"
        return ""

    def stamp(self, moment: str) -> None:
        """Touch the stamp file, and keep the handover's time as the one to compare with."""
        if self.opened is None:
            return
        try:
            touched = workspace.stamp(self.opened.folder)
        except OSError:
            return
        at_s = self._journal.add("workspace", "stamp", moment=moment, ctime_ns=touched.ctime_ns)
        if moment == "handover":
            self._handover = (touched, at_s)

    async def look(self, moment: str) -> None:
        """Look once; at the handover the look is what later ones are compared with."""
        if self.opened is None:
            return
        async with self._looking:
            if moment == "handover" and self._handover is not None and self._since is None:
                self._since = SinceHandover(
                    self.opened.folder,
                    self._token,
                    *self._handover,
                    watches_beside=self._watches_beside(),
                    ignore=self._ignore,
                )
                self._note(moment, await asyncio.to_thread(self._since.first, self.living()))
            else:
                seen = await asyncio.to_thread(workspace.look, self.opened.folder, self._watches_beside())
                self._note(moment, Seen(seen))

    async def note_changes(self, moment: str = "") -> None:
        """Note what changed since the handover and is not noted yet; a moment's name makes it a look of its own."""
        if self._since is None:
            if moment:
                await self.look(moment)
            return
        async with self._looking:
            self._note(moment, await asyncio.to_thread(self._since.again, self.living()))

    def remove_own_logs(self, tokens: Collection[str]) -> None:
        """Remove the runner's logs where the wrapper ran it in a folder of its own: they are ours, and nothing of ours is left behind.

        ``tokens`` are those of all runs that are over, of other drills as well.
        """
        if self.opened is not None:
            workspace.remove_logs(self.opened.folder, tokens)

    def _inode_now(self) -> tuple[int | None, int | None]:
        """Which folder is at the path by now, by device and inode: it may have been moved, and another made in its place."""
        return (self.opened and _inode(self.opened.folder)) or (None, None)

    def _watches_beside(self) -> Callable[[str], bool]:
        """In the drill's own folder every name counts that is not the recorder's; any other folder may be anybody's."""
        assert self.opened is not None
        if _same_folder(os.path.dirname(self.opened.folder.rstrip("/")), self._offered.parent):
            return lambda name: _RECORDERS_OWN.fullmatch(name) is None
        return workspace.is_the_runs_name

    def _note(self, moment: str, seen: Seen) -> None:
        for change in seen.changes:
            if self._noted.get(change.path) != change:
                self._noted[change.path] = change
                self._journal.add("workspace", "changed", since="handover", **change.as_dict())
        # A look between the moments is noted only where it newly could not tell everything.
        if moment or seen.unread != self._unread:
            self._unread = seen.unread
            dev, ino = self._inode_now()
            self._journal.add(
                "workspace",
                "look",
                moment=moment or "between",
                files=len(seen.look.entries),
                took_s=round(seen.look.took_s, 6),
                exists=seen.look.exists,
                unread=list(seen.unread),
                ignored=seen.ignored,
                unlisted=seen.unlisted,
                cut=seen.look.is_cut,
                dev=dev,
                ino=ino,
            )


def _same_folder(path: str, other: Path) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _why_not(path: str) -> str:
    try:
        os.stat(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "is another one here (a mount namespace?), so it is not watched"
