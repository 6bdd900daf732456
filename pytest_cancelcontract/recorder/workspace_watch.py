"""Keeps an eye on one drill's workspace: opens it where the runner finds itself, stamps the handover, notes what changes after it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pytest_cancelcontract.recorder import folders, workspace
from pytest_cancelcontract.recorder.journal import Journal


class WorkspaceWatch:
    """The workspace witness of one drill; every look runs in a thread, since a large tree takes seconds."""

    def __init__(self, journal: Journal, token: str, offered: Path) -> None:
        self._journal = journal
        self._token = token
        self._offered = offered
        self._folder = ""
        self._stamp: workspace.Stamp | None = None
        self._stamp_ns: int | None = None
        self._before: workspace.Look | None = None
        self._noted: dict[str, workspace.Change] = {}
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
        dev, ino = meant
        self._folder = folder
        offered = _same_folder(folder, self._offered)
        marked = os.path.exists(os.path.join(folder, folders.MARKER))
        self._journal.add("workspace", "opened", path=folder, dev=dev, ino=ino, offered=offered, marked=marked)
        try:
            self._stamp = workspace.Stamp(folder)
        except OSError as error:
            return f"no file for a time stamp can be made near {folder}: {error.strerror}"
        return ""

    def stamp(self, moment: str) -> None:
        """Touch the stamp file, and keep the handover's time as the one to compare with."""
        if self._stamp is None:
            return
        try:
            ctime_ns = self._stamp.touch()
        except OSError:
            return
        self._journal.add("workspace", "stamp", moment=moment, ctime_ns=ctime_ns)
        if moment == "handover":
            self._stamp_ns = ctime_ns

    async def look(self, moment: str) -> None:
        """Look once; at the handover the look is what later ones are compared with."""
        if not self._folder:
            return
        async with self._looking:
            seen = await asyncio.to_thread(workspace.look, self._folder)
            self._note_look(moment, seen)
            if moment == "handover":
                self._before = seen

    async def note_changes(self, moment: str = "") -> None:
        """Note what changed since the handover and is not noted yet; a moment's name makes it a look of its own."""
        if self._before is None or self._stamp_ns is None:
            if moment:
                await self.look(moment)
            return
        async with self._looking:
            seen, changes = await asyncio.to_thread(workspace.changes, self._before, self._folder, self._stamp_ns, self._token)
            for change in changes:
                if self._noted.get(change.path) != change:
                    self._noted[change.path] = change
                    self._journal.add("workspace", "changed", since="handover", **change.as_dict())
            if moment:
                self._note_look(moment, seen)

    def remove_own_logs(self, tokens: Collection[str]) -> None:
        """Remove the runner's logs where the wrapper ran it in a folder of its own: they are ours, and nothing of ours is left behind.

        ``tokens`` are those of all runs that are over, of other drills as well.
        """
        if self._folder:
            workspace.remove_logs(self._folder, tokens)

    def close(self) -> None:
        """Let the stamp file go."""
        if self._stamp is not None:
            self._stamp.close()

    def _note_look(self, moment: str, seen: workspace.Look) -> None:
        self._journal.add("workspace", "look", moment=moment, files=len(seen.entries), took_s=round(seen.took_s, 6), exists=seen.exists)


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
