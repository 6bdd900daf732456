"""The commands that adapters have started: a wrapper that stays unreaped until its drill is over, and short ones that are waited for."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time

from pytest_cancelcontract.recorder import descriptors, process_table, reaper
from pytest_cancelcontract.recorder.descent import STAMP
from pytest_cancelcontract.recorder.reaper import END_WITHIN_S, Held
from pytest_cancelcontract.recorder.roll import Command
from pytest_cancelcontract.recorder.watch import Watch


class SpawnError(Exception):
    """A command could not be started."""


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

    def start(self, watch: Watch, argv: list[str], cwd: str, env: dict[str, str], *, role: str, run: str) -> Command:
        """Start a command for a run of a drill, in a session of its own, with its output in a file of the drill's.

        Raises:
            SpawnError: it could not be started, or the drill is over.
        """
        if watch.is_finished:
            raise SpawnError(f"cannot start {argv[0]!r}: the drill is over")
        self._outputs += 1
        # Inherited by whatever the command starts, however it detaches; the runs of an adapter's own making do not get it.
        env = {**env, STAMP: watch.roll.stamp}
        output = watch.folder / f"output-{self._outputs}.txt"
        # The end of its input is the word by which a host knows that its drill is over; a wrapper has none to wait for.
        source = subprocess.PIPE if role == "host" else subprocess.DEVNULL
        began_s = time.monotonic()
        try:
            with output.open("wb") as file, descriptors.as_given():
                process = subprocess.Popen(
                    argv, cwd=cwd, env=env, stdin=source, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
        except OSError as error:
            culprit = error.filename or argv[0]
            raise SpawnError(f"cannot start {culprit!r}: {error.strerror or error}") from error
        # Unreaped children keep their pid, so the identity cannot be a stranger's. The object is kept: its finaliser would wait for it.
        self._processes[process.pid] = process
        identity = process_table.identity_of(process.pid)
        held = Held.take(identity) if identity else None
        if held is None:
            raise SpawnError(f"cannot hold {argv[0]!r}, pid {process.pid}, after its start")
        command = watch.spawned(held, output, argv, role=role, run=run)
        command.began_s = began_s
        self._loop.add_reader(held.pidfd, self._exited, watch, command)
        return command

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
        self._loop.remove_reader(command.held.pidfd)
        command.held.release()
        self.send_away(command)
        process = self._processes.pop(command.held.identity.pid, None)
        if process is not None:
            process.poll()

    def _exited(self, watch: Watch, command: Command) -> None:
        self._loop.remove_reader(command.held.pidfd)
        result = os.waitid(os.P_PIDFD, command.held.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if result is not None:
            watch.exited(command, result.si_status if result.si_code == os.CLD_EXITED else -result.si_status)
            if self._reaps:
                self._processes[command.held.identity.pid].poll()
