"""The recorder process itself: listens for runner processes, answers the plugin, and guards against the plugin's death.

It lives in a session of its own. When pytest is gone, for whatever reason, everything of every drill is ended, and then it leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uncooperative_runner
from pytest_cancelcontract.answers import Script
from pytest_cancelcontract.identity import Identity
from pytest_cancelcontract.recorder import descent, folders, machine, process_table, workspace
from pytest_cancelcontract.recorder.addresses import listening
from pytest_cancelcontract.recorder.agent_watch import AgentWatch
from pytest_cancelcontract.recorder.books import Books
from pytest_cancelcontract.recorder.clock import Clock
from pytest_cancelcontract.recorder.commands import Commands, SpawnError
from pytest_cancelcontract.recorder.descent import Hosts
from pytest_cancelcontract.recorder.journal import Journal
from pytest_cancelcontract.recorder.lifeline import Lifeline
from pytest_cancelcontract.recorder.meter.server import Meter
from pytest_cancelcontract.recorder.plan import FIRST, Plan
from pytest_cancelcontract.recorder.reaper import END_WITHIN_S, Held
from pytest_cancelcontract.recorder.spending import Spending
from pytest_cancelcontract.recorder.watch import Watch
from pytest_cancelcontract.recorder.workspace_watch import WorkspaceWatch
from pytest_cancelcontract.terms import Terms

SAMPLE_EVERY_S = 0.05
AGENT_SAMPLE_EVERY_S = 0.025
"""An agent's processes are known by their descent alone, and some let go of their parent soon."""
SAMPLE_SHARE, AGENT_SAMPLE_SHARE = 0.05, 0.4
"""The share of a processor that the recorder may spend on sampling descent, on a machine with very many processes."""
SAMPLE_AT_LEAST_EVERY_S = 1.0
"""Whatever a look costs: what is stopped is seen by these looks alone."""
CLOCK_EVERY_S = 0.25
HOST_LEAVES_WITHIN_S = 1.0
"""How long a host may take to close its adapter and leave, once its drill is over."""
TELL_EVERY_S = 0.1
"""How often a recorder that still removes folders says so to its pytest, which ends it when it hears nothing."""
GOING_WITHIN_S = 0.5
"""How long a pytest whose end of the socket is closed may take to be gone."""
RUNNER = Path(uncooperative_runner.__file__).with_name("run.py")


class Recorder:
    """All drills of one pytest process."""

    def __init__(self, link: socket.socket, guarded: Held, above: Held | None, root: Path) -> None:
        self._link = link
        self._guarded = guarded
        self._above = above
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._clock = Clock()
        self._watches: dict[str, Watch] = {}
        self._by_token: dict[str, Watch] = {}
        self._ended_tokens: set[str] = set()
        self._lifelines: dict[Lifeline, Watch | None] = {}
        self._source_digests: dict[str, str] = {}
        self._commands = Commands(self._loop)
        self._hosts = Hosts(guarded.identity)
        self._has_said_bye = False
        self._numbers = 0
        self._answering = asyncio.Lock()
        self._remover = ThreadPoolExecutor(1, "remover")
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []
        self._addresses: list[str] = []
        self._meter = Meter(self._loop)
        self._providers: list[str] = []
        self._buffer = b""

    async def serve(self) -> None:
        """Serve until pytest closes its side, is gone, or the recorder is told to end; then leave nothing behind."""
        self._listen()
        self._link.setblocking(False)
        self._loop.add_reader(self._link.fileno(), self._question)
        self._loop.add_reader(self._guarded.pidfd, self._ended.set)
        if self._above is not None:
            self._loop.add_reader(self._above.pidfd, self._ended.set)
        self._loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        endless = [self._loop.create_task(self._sample()), self._loop.create_task(self._tick())]
        for task in endless:
            task.add_done_callback(self._end_with)
        try:
            await self._ended.wait()
        finally:
            failed = [task.exception() for task in endless if task.done()]
            for task in endless:
                task.cancel()
            await self._leave()
        for error in filter(None, failed):
            raise error

    def _end_with(self, task: asyncio.Task[None]) -> None:
        """A recorder that has ceased to look could take what it does not see for what is not there: it ends instead."""
        if not task.cancelled():
            self._ended.set()

    # --- The plugin's questions ---------------------------------------------------------------------------------------

    def _question(self) -> None:
        try:
            data = self._link.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._link.fileno())
            self._ended.set()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            question = json.loads(line)
            if question["method"] == "observe":
                self._observe(**question["params"])
            elif question["method"] == "discard":
                self._discard(**question["params"])
            elif question["method"] == "bye":
                self._has_said_bye = True
            else:
                task = self._loop.create_task(self._answer(question))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: Mapping[str, Any]) -> None:
        methods: dict[str, Callable[..., Any]] = {
            "ping": self._ping,
            "open": self._open,
            "another": self._another,
            "spawn": self._spawn,
            "command": self._command,
            "wait": self._wait,
            "disrupt": self._disrupt,
            "note_line": self._note_line,
            "script": self._script,
            "signal": self._signal,
            "finish": self._finish,
            "meter-open": self._books.open,
            "meter-write": self._books.write,
            "meter-until": self._books.until,
            "meter-press": self._books.press,
            "meter-close": self._books.close,
        }
        try:
            answer: dict[str, Any] = {"result": await methods[question["method"]](**question["params"])}
        except SpawnError as error:
            answer = {"error": str(error), "kind": "spawn"}
        except Exception as error:  # every question gets an answer: silence would hang a test
            answer = {"error": str(error) or repr(error), "kind": type(error).__name__}
        data = json.dumps({"id": question["id"], **answer}, separators=(",", ":")).encode() + b"\n"
        # One at a time: an answer that does not fit into the socket at once must not be cut by another one.
        async with self._answering:
            with contextlib.suppress(OSError):
                await self._loop.sock_sendall(self._link, data)

    async def _ping(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "root": str(self._root)}

    async def _open(
        self, *, header: dict[str, Any], habits: list[str], terms: dict[str, Any], history: str, plan: dict[str, Any]
    ) -> dict[str, Any]:
        settled, planned = Terms.from_dict(terms), Plan.from_dict(plan)
        self._numbers += 1
        name, token = f"d{self._numbers}", secrets.token_hex(12)
        folder = self._root / name
        facts = {
            "habits": habits,
            "terms": terms,
            "machine": machine.facts(),
            "wall_time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "test_process": str(self._guarded.identity),
            "token": token,
        }
        try:
            journal = Journal(Path(history), {**header, **facts})
        except OSError as error:
            raise RuntimeError(f"cannot write the history {history}: {error.strerror or error}") from error
        try:
            await asyncio.to_thread(self._furnish, folder)
        except shutil.Error as error:
            raise RuntimeError(f"cannot make the drill's folder {folder}: {error.args[0][0][2]}") from error
        except OSError as error:
            raise RuntimeError(f"cannot make the drill's folder {folder}: {error.strerror or error}") from error
        watched = WorkspaceWatch(journal, token, folder / "workspace", ignore=planned.ignore)
        spending = Spending(self._meter, journal, self._providers)
        spending.open(token)
        kind = AgentWatch if planned.agent else Watch
        watch = kind(name, token, folder, journal, watched, spending, settled, header.get("capabilities", ()), planned)
        self._watches[name] = self._by_token[token] = watch
        return {
            "drill": name,
            "folder": str(folder),
            "workspace": str(folder / "workspace"),
            "source": str(folder / "source"),
            "argv": self._runner_argv(token, habits, settled, planned.hold, planned.limit_s),
            "provider": spending.url(token),
            "mark": f"{token} {watch.roll.next_attempt()}",
        }

    async def _another(self, *, drill: str, name: str, habits: list[str]) -> dict[str, Any]:
        """Another run in the same drill: a token and a workspace of its own."""
        watch = self._watches[drill]
        token = secrets.token_hex(12)
        folder = watch.folder / name
        try:
            await asyncio.to_thread(folders.copy, self._root / "source", folder / "workspace")
        except (shutil.Error, OSError) as error:
            raise RuntimeError(f"cannot make the folder {folder} of another run: {error}") from error
        watch.roll.tokens[token] = name
        watch.spending.open(token, name)
        self._by_token[token] = watch
        return {
            "folder": str(watch.folder),
            "workspace": str(folder / "workspace"),
            "source": str(watch.folder / "source"),
            "argv": self._runner_argv(token, habits, watch.terms),
            "provider": watch.spending.url(token),
        }

    def _furnish(self, folder: Path) -> None:
        template = self._root / "source"
        if not template.exists():
            draft = self._root / f"source.{secrets.token_hex(4)}"
            draft.mkdir()
            folders.make_source(draft)
            with contextlib.suppress(OSError):
                draft.rename(template)
            self._source_digests = folders.digests(template)
        folder.mkdir(mode=0o711)
        folders.copy(template, folder / "source")
        folders.copy(template, folder / "workspace")

    def _runner_argv(
        self, token: str, habits: Iterable[str], terms: Terms, hold: str | None = None, limit_s: float | None = None
    ) -> list[str]:
        addresses = [word for address in self._addresses for word in ("--recorder", address)]
        armed = [word for habit in habits for word in ("--habit", habit)]
        # Longer than any drill: the cap is for the day on which this process fails.
        lifetime_s = 60 + 3 * (terms.start_s + terms.call_s + max(limit_s or 0.0, terms.deadline_after_press_s) + terms.retry_s)
        tail = ["--cleanup", f"{terms.cleanup_s:g}", "--lifetime", f"{lifetime_s:g}", *(["--hold", hold] if hold else [])]
        # Wrappers add words of their own to their agent's: what comes behind is not read as the runner's, and searched for a session.
        return [sys.executable, "-I", "-S", str(RUNNER), *addresses, "--token", token, *armed, *tail, "--"]

    async def _spawn(self, *, drill: str, argv: list[str], cwd: str, env: dict[str, str], role: str, run: str) -> dict[str, Any]:
        watch = self._watches[drill]
        if isinstance(watch, AgentWatch):
            command = await self._commands.start_agent(watch, argv, cwd, env, role=role, run=run)
        else:
            command = self._commands.start(watch, argv, cwd, env, role=role, run=run)
        return {"pid": command.held.identity.pid, "start": command.held.identity.start, "output": str(command.output)}

    async def _command(self, *, drill: str, argv: list[str], cwd: str, env: dict[str, str], at_most_s: float) -> dict[str, Any]:
        """Run a command to its end; one that takes too long is ended, with all that descends from it."""
        watch = self._watches[drill]
        command = self._commands.start(watch, argv, cwd, env, role="helper", run=FIRST)
        await watch.wait(command.ended(), at_most_s)
        status = command.status
        if not watch.is_finished:
            descent.find_descendants([watch], process_table.all_processes())
            if status is None:
                await self._commands.end(watch, command)
            self._commands.release(command)
            watch.roll.commands.remove(command)
        return {"status": status, "output": str(command.output), "began_s": command.began_s}

    async def _disrupt(self, *, drill: str, how: str) -> dict[str, Any]:
        """Kill, stop or thaw what is between command and leader; ``lacks`` says why that is no wrapper of ours."""
        watch = self._watches[drill]
        descent.find_descendants([watch], process_table.all_processes())
        return {"lacks": watch.disrupt(how)}

    async def _note_line(self, *, drill: str) -> dict[str, Any]:
        """Note who stands above the runner by now."""
        self._watches[drill].note_line()
        return {}

    async def _script(self, *, drill: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
        """Answer the run's requests by a script from now on."""
        self._watches[drill].spending.answer(Script.from_list(answers))
        return {}

    async def _signal(self, *, drill: str, name: str, to: str) -> dict[str, Any]:
        """Send the agent a signal; who belongs to it is looked up once more before, while its processes still have their parents."""
        watch = self._watches[drill]
        assert isinstance(watch, AgentWatch)
        descent.find_foreign(watch, process_table.all_processes())
        return {"at_s": watch.signal(name, to)}

    def _observe(self, *, drill: str, at_s: float, witness: str, kind: str, data: dict[str, Any]) -> None:
        if (watch := self._watches.get(drill)) is not None:
            watch.observed(at_s, witness, kind, data)

    async def _wait(self, *, drill: str, event: str, at_most_s: float) -> dict[str, Any]:
        watch = self._watches[drill]
        reached = await watch.wait(event, at_most_s)
        if watch.journal.failure:
            raise RuntimeError(watch.journal.failure)
        return {"reached": reached, "state": watch.state()}

    async def _finish(self, *, drill: str, why: str) -> dict[str, Any]:
        watch, left = self._watches[drill], set[str]()
        if not watch.is_finished:
            await watch.last_looks()
            now = await asyncio.to_thread(folders.digests, watch.folder / "source")
            if changed := sorted(
                path for path in now.keys() | self._source_digests.keys() if now.get(path) != self._source_digests.get(path)
            ):
                watch.journal.add("workspace", "source-changed", paths=changed)
            self._note_lateness()
            left = {str(one) for one in await self._end(watch, why)}
        if watch.journal.failure:
            raise RuntimeError(watch.journal.failure)
        others = [{"subject": subject, "role": "", "left": True} for subject in sorted(left - {one.subject for one in watch.reaped})]
        return {"reaped": [{"subject": one.subject, "role": one.role, "left": one.subject in left} for one in watch.reaped] + others}

    def _discard(self, *, drill: str) -> None:
        """Forget the drill; its folder is removed when those before it are, and nobody waits for that."""
        watch = self._watches.pop(drill, None)
        if watch is not None:
            for token in watch.roll.tokens:
                self._by_token.pop(token, None)
            self._remover.submit(folders.remove, watch.folder)

    # --- Runner processes ---------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        for listener, shown in listening(self._root / "s"):
            self._listeners.append(listener)
            self._addresses.append(shown)
            self._loop.add_reader(listener.fileno(), self._accept, listener)
        meters = listening(self._root / "m")
        # A proxy can be put before TCP alone, so that is how a run spends where it can.
        self._providers = [shown for _, shown in reversed(meters)]
        self._meter.listen([listener for listener, _ in meters])
        self._books = Books(self._meter, self._providers[0].partition(":")[2])

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                link, _ = listener.accept()
                self._lifelines[Lifeline(self._loop, link, self._message, self._line_ended)] = None

    def _message(self, lifeline: Lifeline, message: dict[str, Any]) -> None:
        watch = self._lifelines.get(lifeline)
        if watch is None:
            self._first_message(lifeline, message)
        else:
            watch.said(lifeline, message)

    def _first_message(self, lifeline: Lifeline, message: dict[str, Any]) -> None:
        token = str(message.get("token", ""))
        watch = self._by_token.get(token)
        if token in self._ended_tokens or (watch is not None and watch.is_finished):
            # A newcomer of a run that is being ended: no other drill need hear of it.
            lifeline.say("refused its drill has ended")
            self._hang_up(lifeline)
            return
        if watch is None or message.get("say") not in {"hello", "guard"}:
            self._refuse(lifeline, "its token is not known here")
            return
        self._lifelines[lifeline] = watch
        watch.lifelines.append(lifeline)
        if message["say"] == "guard":
            lifeline.is_guard = True
            return
        answer = watch.joined(lifeline, message)
        if answer:  # none yet for a leader that is held at its barrier
            lifeline.say(answer)
        if lifeline.subject:
            self._hosts.hold(Identity.parse(lifeline.subject))
        if answer.startswith("refused"):
            self._refused(watch, lifeline, answer)

    def _refuse(self, lifeline: Lifeline, why: str) -> None:
        lifeline.say(f"refused {why}")
        for watch in self._watches.values():
            if not watch.is_finished:
                watch.journal.add("lifeline", "refused", reason=why, peer_pid=lifeline.peer_pid())
        self._hang_up(lifeline)

    def _hang_up(self, lifeline: Lifeline) -> None:
        self._lifelines.pop(lifeline, None)
        lifeline.close()

    def _refused(self, watch: Watch, lifeline: Lifeline, answer: str) -> None:
        watch.journal.add("lifeline", "refused", reason=answer, peer_pid=lifeline.peer_pid())
        self._lifelines.pop(lifeline, None)
        watch.lifelines.remove(lifeline)
        lifeline.close()

    def _line_ended(self, lifeline: Lifeline) -> None:
        watch = self._lifelines.pop(lifeline, None)
        if watch is not None:
            watch.lifelines.remove(lifeline)
            if not lifeline.is_guard:
                watch.left(lifeline)

    # --- In the background --------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(CLOCK_EVERY_S)
            self._note_lateness()

    def _note_lateness(self) -> None:
        seen = self._clock.take()
        for watch in self._watches.values():
            if not watch.is_finished:
                watch.was_late(seen)

    async def _sample(self) -> None:
        """Follow what descends from the adapters' commands, while the chain of parents can still be seen; and see who is stopped."""
        pause_s = SAMPLE_EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            # What a look costs, and not how long it took: one that waited for a processor need not be made up for by looking away.
            began_s, agents = time.thread_time(), list[AgentWatch]()
            if watches := [
                watch for watch in self._watches.values() if not watch.is_finished and (watch.roll.commands or watch.roll.members)
            ]:
                table = process_table.all_processes()
                agents = [watch for watch in watches if isinstance(watch, AgentWatch)]
                descent.find_descendants([watch for watch in watches if watch.roll.commands and watch not in agents], table)
                for agent in agents:
                    descent.find_foreign(agent, table)
                    agent.see_names(table)
                    agent.see_work()
                for watch in watches:
                    watch.see_stopped(table)
                    watch.sample_starvation()
            self._commands.tend_launchers()
            every_s, share = (AGENT_SAMPLE_EVERY_S, AGENT_SAMPLE_SHARE) if agents else (SAMPLE_EVERY_S, SAMPLE_SHARE)
            pause_s = min(max(every_s, (time.thread_time() - began_s) / share), SAMPLE_AT_LEAST_EVERY_S)

    # --- Ending -------------------------------------------------------------------------------------------------------

    async def _end(self, watch: Watch, why: str) -> list[Identity]:
        """End everything of a drill: lifelines first (a runner ends with its own), then whatever is still alive, by pidfd.

        Returns what may not be signalled from here, and is alive.
        """
        alive = watch.roll.living()
        watch.finish(why, alive)
        for lifeline in list(watch.lifelines):
            self._lifelines.pop(lifeline, None)
            lifeline.close()
        for command in watch.roll.commands:
            self._commands.send_away(command)
        host = watch.roll.host()
        host_until, until = time.monotonic() + HOST_LEAVES_WITHIN_S, time.monotonic() + END_WITHIN_S
        while True:
            table = process_table.all_processes()
            descent.find_descendants([watch], table)
            descent.find_stamped(watch, table)
            spared = descent.hand_over(watch, [other for other in self._watches.values() if not other.is_finished], table)
            living = [held for held in self._held(watch) if not held.has_ended() and held.identity not in spared]
            leaving = [one for one in living if host is not None and one.identity == host.held.identity and time.monotonic() < host_until]
            spared_by_kernel = [held.identity for held in living if held not in leaving and not held.kill()]
            if not living or time.monotonic() > until:
                break
            await asyncio.sleep(0.005 if living != leaving else 0.02)
        self._release(watch)
        self._hosts.release_ended()
        self._ended_tokens.update(watch.roll.tokens)
        watch.workspace.remove_own_logs(self._ended_tokens)
        for folder in watch.folders:  # where its other runs found themselves
            workspace.remove_logs(folder, self._ended_tokens)
        return spared_by_kernel

    def _held(self, watch: Watch) -> list[Held]:
        members = [member.held for member in watch.roll.members.values()]
        return [*members, *watch.roll.found.values(), *(command.held for command in watch.roll.commands)]

    def _release(self, watch: Watch) -> None:
        for command in watch.roll.commands:
            self._commands.release(command)
        for member in watch.roll.members.values():
            self._loop.remove_reader(member.held.pidfd)
        for held in self._held(watch):
            held.release()

    async def _leave(self) -> None:
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._meter.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        is_orphaned = not self._has_said_bye and await self._is_guarded_gone()
        if is_orphaned:
            self._hosts.stop()
        unfinished = [watch for watch in self._watches.values() if not watch.is_finished]
        await asyncio.gather(*(self._end(watch, "pytest has ended") for watch in unfinished), return_exceptions=True)
        await self._commands.launchers_gone()
        if is_orphaned:
            self._hosts.kill()
        if self._has_said_bye:
            threading.Thread(target=self._tell_of_removals, name="removals", daemon=True).start()
        # What is left of the discarded folders goes with the root.
        self._remover.shutdown(cancel_futures=True)

    def _tell_of_removals(self) -> None:
        """Say that folders are still removed, to a pytest that waits for it; where that takes too long, leave them and end.

        A thread that hangs in a file system can't be ended but with its process, in which nothing else is left to do by now.
        """
        patience = folders.Patience()
        while not patience.is_over():
            with contextlib.suppress(OSError):
                self._link.send(b'{"id":0}\n')
            time.sleep(TELL_EVERY_S)
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        os._exit(0)

    async def _is_guarded_gone(self) -> bool:
        """Whether pytest went without a word; where it still lives, the adapters' own wrappers are its own."""
        until = time.monotonic() + GOING_WITHIN_S
        while not self._guarded.has_ended() and time.monotonic() < until:
            await asyncio.sleep(0.005)
        return self._guarded.has_ended()


async def serve(link: socket.socket, guarded: Identity, above: Identity | None, root: Path) -> None:
    """Run the recorder until its pytest is gone, or the process above it (the controller of a distributed run)."""
    held = Held.take(guarded)
    controller = Held.take(above) if above else None
    if held is None or (above is not None and controller is None):
        return
    await Recorder(link, held, controller, root).serve()
