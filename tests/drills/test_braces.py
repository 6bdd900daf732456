"""How a command line becomes words: what stands for what, and what is refused with which words."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.command import CommandAdapter, _meaning
from pytest_cancelcontract.adapters.protocol import Outcome
from pytest_cancelcontract.adapters.words import BadCommand, Template, read_outcome_map, read_signal
from pytest_cancelcontract.run import Run, Spawned

RUNNER = ("/usr/bin/python3", "-I", "/lib/run me.py", "--token", "t")
ALLOWED = ("runner", "workspace", "id")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("wrap {runner}", ["wrap", *RUNNER], id="as a word of its own it becomes the runner's words"),
        pytest.param(
            "sh -c 'exec {runner}'", ["sh", "-c", "exec /usr/bin/python3 -I '/lib/run me.py' --token t"], id="inside a word it is quoted"
        ),
        pytest.param("a {runner} {runner}", ["a", *RUNNER, *RUNNER], id="it may stand twice"),
        pytest.param("a --in={workspace} {runner}", ["a", "--in=/w", *RUNNER], id="others are put in as they are"),
        pytest.param("a '{{x}}' {{ }} {runner}", ["a", "{x}", "{", "}", *RUNNER], id="doubled braces are literal"),
        pytest.param("a {{runner}} {runner}", ["a", "{runner}", *RUNNER], id="a doubled runner is no runner"),
        pytest.param("a '{{{workspace}}}'", ["a", "{/w}"], id="three braces are a literal one around a value"),
        pytest.param("a 'b c' \"d e\" f\\ g", ["a", "b c", "d e", "f g"], id="quotes are the shell's"),
        pytest.param("a $HOME * ; b | c", ["a", "$HOME", "*", ";", "b", "|", "c"], id="there is no shell"),
        pytest.param(["a b", "{runner}"], ["a b", *RUNNER], id="a list is taken as words"),
    ],
)
def test_braces_are_filled(command: str | list[str], words: list[str]) -> None:
    template = Template.parse(command, allowed=ALLOWED, origin="--cancel-wrapper")
    assert template.fill({"workspace": "/w", "id": "7"}, RUNNER) == words


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(
            "a {runer}", "unknown brace {runer} in '{runer}' from --x; braces known there: {runner}, {workspace}, {id}", id="a typing error"
        ),
        pytest.param("a {}", "unknown brace {}", id="an empty brace"),
        pytest.param("a { runner }", "single brace in '{'", id="a brace with spaces is two words"),
        pytest.param("a '{\"k\": 1}'", 'unknown brace {"k": 1}', id="JSON"),
        pytest.param("a {runner", "single brace in '{runner' from --x", id="an open brace"),
        pytest.param("a runner}", "single brace in 'runner}' from --x", id="a closing brace"),
        pytest.param("a 'b", 'cannot split the command "a \'b" from --x into words: No closing quotation', id="an open quotation"),
        pytest.param("", "at least one word, got '' from --x", id="nothing"),
        pytest.param("  ", "at least one word", id="blanks"),
        pytest.param("bash -c '{runner}'", "write it inside the script: -c 'exec {runner}'", id="a script of many words"),
        pytest.param("'' a", "at least one word", id="an empty program"),
        pytest.param("a\0b", "null character", id="a null character"),
        pytest.param(["a", 3], "text or a sequence of words", id="a number"),
    ],
)
def test_a_bad_command_is_refused_with_its_origin(command: str, message: str) -> None:
    with pytest.raises(BadCommand) as refused:
        Template.parse(command, allowed=ALLOWED, origin="--x")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("TERM", signal.SIGTERM),
        ("SIGTERM", signal.SIGTERM),
        ("15", signal.SIGTERM),
        ("INT", signal.SIGINT),
        ("sigint", signal.SIGINT),
        ("USR1", signal.SIGUSR1),
        ("./stop", None),
        ("stop.sh", None),
        ("my-cancel", None),
    ],
)
def test_a_signal_is_read(word: str, number: signal.Signals | None) -> None:
    assert read_signal(word, "--cancel-with") == number


@pytest.mark.parametrize("word", ["SIGFOO", "FOO", "0", "-9", "999", "SIGTERMX"])
def test_what_looks_like_a_signal_and_is_none_is_refused(word: str) -> None:
    with pytest.raises(BadCommand, match=f"no such signal: '{word}' from --cancel-with"):
        read_signal(word, "--cancel-with")


@pytest.mark.parametrize("word", ["term", "kill", "Stop"])
def test_a_word_that_could_be_both_is_refused(word: str) -> None:
    with pytest.raises(BadCommand, match="could be a signal or a program"):
        read_signal(word, "--cancel-with")


@pytest.mark.parametrize(("word", "entry"), [("RUNNING", "RUNNING=running"), ("REVOKED", "REVOKED=OUTCOME"), ("", "WORD=OUTCOME")])
def test_what_a_word_may_mean_is_not_guessed(word: str, entry: str) -> None:
    assert _meaning(word) == entry


def test_an_outcome_map_is_read() -> None:
    assert read_outcome_map("REVOKED=cancelled, A=B=failed,", "--m") == {"REVOKED": Outcome.CANCELLED, "A=B": Outcome.FAILED}
    assert read_outcome_map({"DONE": "succeeded"}, "--m") == {"DONE": Outcome.SUCCEEDED}


@pytest.mark.parametrize("text", ["REVOKED", "=cancelled", "REVOKED=canceled", "A=cancelled,B"])
def test_a_bad_outcome_map_is_refused_with_its_origin(text: str) -> None:
    with pytest.raises(BadCommand, match="from --m"):
        read_outcome_map(text, "--m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"command": "wrap run"}, "the command 'wrap run' from CommandAdapter(command=…) never starts the runner", id="no runner"
        ),
        pytest.param({}, "got neither", id="nothing to start"),
        pytest.param({"command": "a {runner}", "start": "b {runner}"}, "got both", id="two things to start"),
        pytest.param({"command": "a {runner}", "cancel_with": "stop {id}"}, "unknown brace {id}", id="an id where there is none"),
        pytest.param(
            {"start": "a {runner}", "cancel_with": "stop {wrapper_pid}"}, "unknown brace {wrapper_pid}", id="a pid where there is none"
        ),
        pytest.param(
            {"start": "a {runner}"}, "SIGTERM from CommandAdapter(cancel_with=…) has no process to go to", id="a signal for a service"
        ),
        pytest.param({"command": "a {runner}", "outcome": "ask {runner}"}, "unknown brace {runner}", id="a runner in a question"),
        pytest.param({"command": "a {runner}", "outcome_map": "A=cancelled"}, "needs an outcome command", id="a map for no question"),
        pytest.param({"command": "a", "shims": ("bin/claude",)}, "plain program name, got 'bin/claude'", id="a shim with a folder"),
        pytest.param({"command": "a {runner}", "cancel_with": "INT 2 TERM"}, "a ladder begins with @", id="a ladder without its @"),
    ],
)
def test_a_command_adapter_that_cannot_work_is_refused(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(BadCommand) as refused:
        CommandAdapter(**arguments)
    assert message in str(refused.value)


def test_each_argument_has_its_own_origin() -> None:
    with pytest.raises(BadCommand, match="from --cancel-with"):
        CommandAdapter("a {runner}", cancel_with="FOO", origin={"command": "--cancel-wrapper", "cancel_with": "--cancel-with"})


@pytest.mark.parametrize(
    ("arguments", "capabilities"),
    [
        ({"command": "a {runner}"}, ("exit", "disrupt", "recover")),
        ({"command": "a {time_limit} {stall_after} {runner}"}, ("exit", "disrupt", "recover", "limit", "stall")),
        ({"command": "a {runner}", "outcome": "ask {run_id}"}, ("outcome", "disrupt", "recover")),
        ({"start": "a {runner}", "cancel_with": "stop {id}"}, ()),
        ({"start": "a {runner}", "cancel_with": "stop {id}", "outcome": "ask {id}"}, ("outcome",)),
    ],
)
def test_what_a_command_adapter_can_tell_depends_on_its_commands(arguments: dict[str, str], capabilities: tuple[str, ...]) -> None:
    assert CommandAdapter(**arguments).capabilities == capabilities


def _run(folder: Path, spawned: list[tuple[list[str], Path, dict[str, str]]], *, stall_after: float | None = None) -> Run:
    def spawn(argv: object, cwd: Path, env: object, _role: str) -> Spawned:
        spawned.append((list(argv), cwd, dict(env)))  # type: ignore[call-overload]
        return Spawned(1, 2, folder / "output")

    return Run("r1", "t1", RUNNER, {"PATH": "/bin"}, folder / "w", folder / "s", folder, 10.0, stall_after, _spawn=spawn)


def test_without_a_workspace_word_the_wrapper_starts_in_the_workspace(tmp_path: Path) -> None:
    spawned: list[tuple[list[str], Path, dict[str, str]]] = []
    CommandAdapter("a {time_limit} {task_id} {run_id} {source} {runner}").start(_run(tmp_path, spawned))
    CommandAdapter("a {workspace} {stall_after} {runner}").start(_run(tmp_path, spawned, stall_after=0.5))
    assert spawned[0][:2] == (["a", "10", "t1", "r1", str(tmp_path / "s"), *RUNNER], tmp_path / "w")
    assert spawned[1][:2] == (["a", str(tmp_path / "w"), "0.5", *RUNNER], Path.cwd())


def test_a_shim_stands_in_front_of_the_path(tmp_path: Path) -> None:
    spawned: list[tuple[list[str], Path, dict[str, str]]] = []
    CommandAdapter("wrap", shims=("claude",)).start(_run(tmp_path, spawned))
    assert spawned[0][2]["PATH"] == f"{tmp_path / 'shim' / 'r1' / 'claude'}:/bin"
    assert (tmp_path / "shim" / "r1" / "claude" / "claude").exists()


def test_a_stall_limit_that_has_no_value_cannot_be_handed_on(tmp_path: Path) -> None:
    with pytest.raises(BadCommand, match="the term stall_after has no value"):
        CommandAdapter("a {stall_after} {runner}").start(_run(tmp_path, []))
