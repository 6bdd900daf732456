"""An adapter from command lines, for a wrapper in any language.

Words are split as a shell splits them, but no shell is run. Braces stand for what a run is made of; unknown ones, and a
command that never starts the runner, are refused when the adapter is made.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_cancelcontract.adapters.helpers import CommandFailed, cannot_start, climb, run_helper
from pytest_cancelcontract.adapters.ladders import Ladder, Step, is_ladder, read_ladder
from pytest_cancelcontract.adapters.protocol import BadOutcome, Outcome
from pytest_cancelcontract.adapters.words import BadCommand, Template, read_outcome_map, read_signal, refuse_bare_ladder, split
from pytest_cancelcontract.run import Run, Spawned

RUN_BRACES: tuple[str, ...] = ("runner", "runner_exe", "workspace", "source", "task_id", "run_id", "time_limit", "stall_after", "provider")
"""What may stand in the command that starts a run."""
STARTS_THE_RUNNER: tuple[str, ...] = ("runner", "runner_exe")


@dataclass(slots=True, eq=False)
class CommandHandle:
    """One started run: its wrapper's process, or the id that the service gave it."""

    run: Run
    spawned: Spawned | None = None
    service_id: str | None = None


class CommandAdapter:
    """Start, cancel and ask by command lines.

    Args:
        command: starts the wrapper and lives as long as it. With ``{workspace}`` it is started in the present folder, without
            it in the workspace.
        start: instead of ``command``, for services: starts the run, ends, and prints its id as its last line.
        cancel_with: a signal or a ladder of them to the wrapper (``"INT"``, ``"@docker"``, ``"@'INT 2 TERM 1 KILL'"``; only with
            ``command``), or a command that may use ``{id}`` or ``{wrapper_pid}``.
        outcome: a command whose last line is the outcome; without it, the exit of ``command`` is the outcome.
        outcome_map: the outcome command's words, in terms of the contract's.
        shims: program names that become the runner, for wrappers that call a fixed program: a folder with them is put at the
            front of PATH, and ``{runner}`` may be left out.
        origin: where these came from, for messages; one name for all, or one for each argument.
    Raises:
        BadCommand: a value is refused.

    Example::

        CommandAdapter("node wrap.mjs {workspace} {source} {runner}", cancel_with="INT")
    """

    def __init__(
        self,
        command: str | Sequence[str] | None = None,
        *,
        cancel_with: str | Sequence[str] = "SIGTERM",
        start: str | Sequence[str] | None = None,
        outcome: str | Sequence[str] | None = None,
        outcome_map: Mapping[str, str] | str | None = None,
        shims: Sequence[str] = (),
        origin: str | Mapping[str, str] = "CommandAdapter",
    ) -> None:
        __tracebackhide__ = True  # what is wrong stands in the caller's line
        self._origins = origin
        if (command is None) == (start is None):
            got = "neither" if command is None else "both"
            raise BadCommand(
                f"exactly one of a command that lives as long as the wrapper ({self._origin('command')}) and a command that starts a"
                f" run and ends ({self._origin('start')}) must be given, got {got}"
            )
        self._is_service = start is not None
        which = "start" if self._is_service else "command"
        given = start if start is not None else command
        assert given is not None
        self._shims = _read_shims(shims, self._origin("shims"))
        self._start = Template.parse(given, allowed=RUN_BRACES, origin=self._origin(which))
        if not self._shims and not self._start.uses.intersection(STARTS_THE_RUNNER):
            raise BadCommand(
                f"the command {_shown(given)} from {self._origin(which)} never starts the runner: it needs {{runner}} or {{runner_exe}}"
                " (one that calls a program by name is drilled from a test file, with CommandAdapter(…, shims=[NAME]))"
            )
        self._later_braces = ("id" if self._is_service else "wrapper_pid", "run_id", "task_id")
        self._press = self._read_cancel(cancel_with)
        self._outcome = None
        if outcome is not None:
            self._outcome = Template.parse(outcome, allowed=self._later_braces, origin=self._origin("outcome"))
        self._outcome_map = read_outcome_map(outcome_map, self._origin("outcome_map"))
        if self._outcome_map and self._outcome is None:
            raise BadCommand(f"an outcome map ({self._origin('outcome_map')}) needs an outcome command ({self._origin('outcome')})")
        self.name = _shown(given, quoted=False)
        self.how = self._press.how if isinstance(self._press, Ladder) else _shown(cancel_with, quoted=False)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """How its outcome is told, what can be done to it, and which limits it takes.

        ``outcome`` with an outcome command, else ``exit`` for a wrapper that is watched; ``limit`` and ``stall`` where the command has
        them in it.
        """
        told = ("outcome",) if self._outcome is not None else () if self._is_service else ("exit",)
        # A service's wrapper is somewhere behind it; of a command it is the leader's parent, if that is not the command itself.
        own = () if self._is_service else ("disrupt", "recover")
        limits = [name for name, brace in (("limit", "time_limit"), ("stall", "stall_after")) if brace in self._start.uses]
        return (*told, *own, *limits)

    def start(self, run: Run, /) -> CommandHandle:
        """Start the wrapper, or let the service start the run.

        Raises:
            CannotStart: the command does not exist or cannot be executed.
            CommandFailed: the service's start command failed, or printed no id.
        """
        argv = self._start.fill(self._run_values(run), run.argv)
        cwd = Path.cwd() if "workspace" in self._start.uses else run.workspace
        if "/" in argv[0]:
            # ./wrap.sh is meant as it was typed, wherever the command is started.
            argv[0] = str(Path.cwd() / argv[0])
        env = self._environment(run)
        if self._is_service:
            handle = CommandHandle(run)
            printed = run_helper(run, argv, cwd=cwd, env=env, what="start")
            handle.service_id = _last_line(printed)
            if not handle.service_id:
                raise CommandFailed(f"the start command {shlex.join(argv)} printed no id as its last line")
            return handle
        try:
            return CommandHandle(run, spawned=run.spawn(argv, cwd=cwd, env=env))
        except OSError as error:
            raise cannot_start(argv[0], error) from error

    @property
    def cancel_takes_s(self) -> float:
        """How long the cancel call takes at most by its own pauses: those of a ladder."""
        return self._press.takes_s if isinstance(self._press, Ladder) else 0.0

    def cancel(self, handle: CommandHandle, /) -> None:
        """Send the signal, or those of the ladder, to the wrapper's own process, or run the cancel command to its end.

        Raises:
            ProcessLookupError: the wrapper's pid no longer names the wrapper.
            CutShort: the time of the call was up before the ladder's last signal.
            CommandFailed: the cancel command failed.
        """
        if isinstance(self._press, Template):
            run_helper(handle.run, self._press.fill(_later_values(handle)), cwd=Path.cwd(), what="cancel")
        elif handle.spawned is not None:
            climb(self._press, handle.spawned.pid, handle.spawned.start)

    def outcome(self, handle: CommandHandle, /) -> Outcome:
        """Run the outcome command and read the last line that it prints.

        Raises:
            CommandFailed: it failed.
            BadOutcome: its word is no outcome, and not in the map.
        """
        if self._outcome is None:
            raise RuntimeError("this adapter has no outcome command: the outcome is the wrapper's exit")
        printed = run_helper(handle.run, self._outcome.fill(_later_values(handle)), cwd=Path.cwd(), what="outcome")
        word = _last_line(printed)
        if word in self._outcome_map:
            return self._outcome_map[word]
        try:
            return Outcome(word)
        except ValueError:
            known = ", ".join([*self._outcome_map, *Outcome])
            raise BadOutcome(
                f"the outcome command printed {word!r}, which is none of {known}; say what it means in the map"
                f" ({self._origin('outcome_map')}), as in {_meaning(word)}"
            ) from None

    def disrupt(self, handle: CommandHandle, how: Literal["kill", "freeze"], /) -> None:
        """Kill or stop the leader's parent and all between it and the command: the wrapper, where a platform stands above it.

        Raises:
            Lacking: the leader's parent is the command itself, so that there is no platform.
        """
        handle.run.disrupt_wrapper(how)

    def recover(self, handle: CommandHandle, /) -> None:
        """Let it go on."""
        handle.run.disrupt_wrapper("thaw")

    def _origin(self, argument: str) -> str:
        if isinstance(self._origins, str):
            return f"{self._origins}({argument}=…)" if self._origins == "CommandAdapter" else self._origins
        return self._origins.get(argument, f"CommandAdapter({argument}=…)")

    def _read_cancel(self, given: str | Sequence[str]) -> Ladder | Template:
        origin = self._origin("cancel_with")
        words = split(given, origin)
        press: Ladder | None = None
        if is_ladder(words):
            press = read_ladder(words, origin)
        elif len(words) == 1 and (number := read_signal(words[0], origin)) is not None:
            press = Ladder((Step(number),))
        if press is None:
            refuse_bare_ladder(words, origin)
            return Template.parse(given, allowed=self._later_braces, origin=origin)
        if self._is_service:
            raise BadCommand(
                f"{' '.join(words)} from {origin} has no process to go to: a run that {self._origin('start')} starts is cancelled by a"
                " command, with {id} in it"
            )
        return press

    def _run_values(self, run: Run) -> dict[str, str]:
        values = {
            "workspace": str(run.workspace),
            "source": str(run.source),
            "task_id": run.task_id,
            "run_id": run.id,
            "time_limit": _seconds(run.time_limit),
            "provider": run.provider,
        }
        if "runner_exe" in self._start.uses:
            values["runner_exe"] = run.executable
        if "stall_after" in self._start.uses:
            if run.stall_after is None:
                raise BadCommand(f"the command from {self._start.origin} uses {{stall_after}}, but the term stall_after has no value")
            values["stall_after"] = _seconds(run.stall_after)
        return values

    def _environment(self, run: Run) -> dict[str, str]:
        env = dict(run.env)
        if self._shims:
            folders = [str(run.shim(name)) for name in self._shims]
            env["PATH"] = os.pathsep.join([*folders, env.get("PATH", os.defpath)])
        return env


def _later_values(handle: CommandHandle) -> dict[str, str]:
    values = {"run_id": handle.run.id, "task_id": handle.run.task_id}
    if handle.spawned is not None:
        values["wrapper_pid"] = str(handle.spawned.pid)
    if handle.service_id is not None:
        values["id"] = handle.service_id
    return values


def _read_shims(shims: Sequence[str], origin: str) -> tuple[str, ...]:
    names = (shims,) if isinstance(shims, str) else tuple(shims)
    for name in names:
        if not name or "/" in name or name in {".", ".."}:
            raise BadCommand(f"a shim must be a plain program name, got {name!r} from {origin}")
    return names


def _shown(command: str | Sequence[str], *, quoted: bool = True) -> str:
    text = command if isinstance(command, str) else shlex.join(command)
    return repr(text) if quoted else text


def _seconds(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _meaning(word: str) -> str:
    """An entry for the map, to be pasted: no outcome is proposed that the word need not mean."""
    return f"{word or 'WORD'}={word.lower() if word.lower() in {*Outcome} else 'OUTCOME'}"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
