"""The commands that adapters have started: a wrapper that stays unreaped until its drill is over, and short ones that are waited for.

An agent is started below a launcher, which keeps whatever of it loses its parent.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_cancelcontract.recorder import descriptors, process_table, reaper
from pytest_cancelcontract.recorder.agent_watch import AgentWatch
from pytest_cancelcontract.recorder.descent import STAMP
from pytest_cancelcontract.recorder.reaper import END_WITHIN_S, Held
from pytest_cancelcontract.recorder.roll import Command
from pytest_cancelcontract.recorder.watch import Watch

LAUNCHER_LEAVES_WITHIN_S = 5.0
"""It ends what is left for some seconds at most."""
LAUNCHER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py")


class SpawnError(Exception):
    """A command could not be started."""


class _Launcher:
    """An agent's launcher: who waits for the agent, and ends with all that is below it once it is let go."""

    def __init__(self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        identity = process_table.identity_of(process.pid)
        assert identity is not None  # it is a child that nobody has waited for
        self.identity = identity
        self.process = process
        self.agent = 0
        self.follows: asyncio.Task[None] | None = None
        self.leaves_until_s = math.inf
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, output: Path) -> _Launcher:
        """Start one, whose output is the agent's.

        Raises:
            OSError: it could not be started.
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-I", "-S", "-X", "utf8", LAUNCHER]
        try:
            with theirs, output.open("wb") as file, descriptors.as_given():
                process = subprocess.Popen(
                    command, cwd="/", stdin=theirs.fileno(), stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError:
            ours.close()
            raise
        return cls(process, *await asyncio.open_unix_connection(sock=ours))

    async def launch(self, argv: list[str], cwd: str, env: dict[str, str]) -> int:
        """Have it start the agent, and return the agent's pid, which stays nobody else's until it is let go.

        Raises:
            SpawnError: the agent could not be started.
        """
        given = {"argv": _as_utf8(argv), "cwd": _as_utf8([cwd])[0], "env": dict(zip(_as_utf8(env), _as_utf8(env.values()), strict=True))}
        self._writer.write(json.dumps(given).encode() + b"\n")
        told = await self.told() or {"error": f"its launcher, pid {self.process.pid}, has ended"}
        if "error" in told:
            raise _not_started(told.get("culprit") or argv[0], told["error"])
        self.agent = int(told["pid"])
        return self.agent

    async def told(self) -> dict[str, Any] | None:
        """What it says next; None where it is gone."""
        try:
            line = await self._reader.readline()
        except OSError:
            line = b""
        told: dict[str, Any] | None = json.loads(line) if line else None
        return told

    def let_go(self) -> None:
        """It reaps the agent, ends what is left, and goes."""
        self.agent = 0
        if self.follows is not None:
            self.follows.cancel()
        self._writer.transport.abort()
        self.leaves_until_s = time.monotonic() + LAUNCHER_LEAVES_WITHIN_S

    def has_gone(self) -> bool:
        """Whether it is dead and reaped; where its agent has stopped it, or it stays for too long, this sees to it."""
        if process_table.is_stopped(self.identity):
            self.process.send_signal(signal.SIGCONT)
        if time.monotonic() > self.leaves_until_s:
            self.process.kill()
        return self.process.poll() is not None


def _as_utf8(words: Iterable[str]) -> list[str]:
    """The same bytes for a process that takes all names for UTF-8, whatever this one's locale says."""
    return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in words]


def _not_started(culprit: str, why: object) -> SpawnError:
    return SpawnError(f"cannot start {culprit!r}: {why}")


class Commands:
    """All commands of the recorder, which is their parent.

    One that has ended stays unreaped until it is released, so that its pid is nobody else's; unless ``reaps``, where others ask by the
    pid whether it lives.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, reaps: bool = False) -> None:
        self._loop = loop
        self._reaps = reaps
        self._outputs = 0
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._launchers: list[_Launcher] = []

    def start(self, watch: Watch, argv: list[str], cwd: str, env: dict[str, str], *, role: str, run: str) -> Command:
        """Start a command for a run of a drill, in a session of its own, with its output in a file of the drill's.

        Raises:
            SpawnError: it could not be started, or the drill is over.
        """
        output = self._output(watch, argv)
        # The end of its input is the word by which a host knows that its drill is over; a wrapper has none to wait for.
        source = subprocess.PIPE if role == "host" else subprocess.DEVNULL
        began_s = time.monotonic()
        try:
            with output.open("wb") as file, descriptors.as_given():
                process = subprocess.Popen(
                    argv, cwd=cwd, env=_stamped(env, watch), stdin=source, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            raise _not_started(error.filename or argv[0], error.strerror or error) from error
        # Unreaped children keep their pid, so the identity cannot be a stranger's. The object is kept: its finaliser would wait for it.
        self._processes[process.pid] = process
        command = watch.spawned(_hold(process.pid, argv), output, argv, role=role, run=run)
        command.began_s = began_s
        self._loop.add_reader(command.held.pidfd, self._exited, watch, command)
        return command

    async def start_agent(self, watch: AgentWatch, argv: list[str], cwd: str, env: dict[str, str], *, role: str, run: str) -> Command:
        """Start an agent in the same way, but below a launcher, which is the parent of all its orphans and keeps it unreaped.

        Raises:
            SpawnError: it could not be started, or the drill is over.
        """
        output = self._output(watch, argv)
        try:
            below = await _Launcher.start(output)
        except OSError as error:
            raise _not_started(error.filename or argv[0], error.strerror or error) from error
        self._launchers.append(below)
        try:
            began_s = time.monotonic()
            pid = await below.launch(argv, cwd, _stamped(env, watch))
            _refuse_if_over(watch, argv)
            held = _hold(pid, argv)
            watch.launcher = below.identity
            command = watch.spawned(held, output, argv, role=role, run=run)
        except BaseException:
            below.let_go()
            raise
        command.began_s = began_s
        below.follows = self._loop.create_task(self._follow(watch, command, below))
        return command

    def _output(self, watch: Watch, argv: list[str]) -> Path:
        """The file for the output of a command that is about to be started."""
        _refuse_if_over(watch, argv)
        self._outputs += 1
        return watch.folder / f"output-{self._outputs}.txt"

    async def end(self, watch: Watch, command: Command) -> None:
        """End a command with all that descends from it, as far as that was found."""
        session = command.held.identity.pid
        table = process_table.all_processes()
        below = [watch.roll.found.get(identity) for identity in reaper.descendants(table, [command.held.identity], [session])]
        killed = [held for held in below if held is not None]
        for held in killed:
            held.kill()
        command.held.kill()
        until = time.monotonic() + END_WITHIN_S
        await watch.wait(command.ended(), END_WITHIN_S)
        while not all(held.has_ended() for held in killed) and time.monotonic() < until:
            await asyncio.sleep(0.002)

    def send_away(self, command: Command) -> None:
        """Tell a host that its drill is over, so that it closes its adapter and leaves; there is nothing to tell to others."""
        process = self._processes.get(command.held.identity.pid)
        if process is not None and process.stdin is not None:
            process.stdin.close()

    def release(self, command: Command) -> None:
        """Reap a command that has ended, and let go of it."""
        pid = command.held.identity.pid
        self._loop.remove_reader(command.held.pidfd)
        command.held.release()
        self.send_away(command)
        process = self._processes.pop(pid, None)
        if process is not None:
            process.poll()
        for below in self._launchers:
            if below.agent == pid:
                below.let_go()

    def tend_launchers(self) -> None:
        """Let those go on that their agents have stopped, and reap those that have left."""
        self._launchers = [below for below in self._launchers if not below.has_gone()]

    async def launchers_gone(self) -> None:
        """Let go whom nobody has let go, and wait until all of them have left."""
        for below in self._launchers:
            if below.leaves_until_s == math.inf:
                below.let_go()
        while self._launchers:
            self.tend_launchers()
            await asyncio.sleep(0.002)

    def _exited(self, watch: Watch, command: Command) -> None:
        self._loop.remove_reader(command.held.pidfd)
        result = os.waitid(os.P_PIDFD, command.held.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is not None:
            watch.exited(command, result.si_status if result.si_code == os.CLD_EXITED else -result.si_status)
            if self._reaps:
                self._processes[command.held.identity.pid].poll()

    async def _follow(self, watch: AgentWatch, command: Command, below: _Launcher) -> None:
        """Wait for the agent's status, which only its parent is told; that it has ended was seen before."""
        if (told := await below.told()) is not None:
            leader = watch.roll.members.get(command.held.identity)
            watch.exited(command, int(told["status"]), leader.died_s if leader is not None else None)
        elif not watch.is_finished:
            watch.launcher_lost()


def _stamped(env: dict[str, str], watch: Watch) -> dict[str, str]:
    """Inherited by whatever the command starts, however it detaches; the runs of an adapter's own making do not get it."""
    return {**env, STAMP: watch.roll.stamp}


def _refuse_if_over(watch: Watch, argv: list[str]) -> None:
    if watch.is_finished:
        raise _not_started(argv[0], "the drill is over")


def _hold(pid: int, argv: list[str]) -> Held:
    """Hold a command that has just been started, and that nobody has waited for."""
    identity = process_table.identity_of(pid)
    held = Held.take(identity) if identity else None
    if held is None:
        raise SpawnError(f"cannot hold {argv[0]!r}, pid {pid}, after its start")
    return held
