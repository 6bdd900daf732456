"""A trial that cannot be run says why, and on whose side that is; it is no verdict."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_cancelcontract.adapters.words import BadCommand
from pytest_cancelcontract.agents.profiles import PROFILES, agent_of
from pytest_cancelcontract.agents.report import lines
from pytest_cancelcontract.agents.surroundings import Surroundings, is_passed
from pytest_cancelcontract.agents.tool import PLACEMENTS
from pytest_cancelcontract.agents.trial import AgentNeverWorked, AgentNotStarted
from pytest_cancelcontract.agents.trials import MOMENTS, TRIALS, UnknownTrial, select, trial, trial_of
from pytest_cancelcontract.answers import Failure, Stream, ToolCall
from pytest_cancelcontract.underway import EndedBeforePress
from tests.agents.conftest import TERMS, Try, sample
from tests.agents.test_agent_found import survivors
from tests.recorder.test_folders import in_a_namespace


def test_an_agent_that_does_not_exist_is_not_started(tries: Try) -> None:
    with pytest.raises(AgentNotStarted, match="no-such-agent"):
        tries(agent_of("no-such-agent {provider}", origin="test"), "streaming-term")


def test_an_agent_that_ends_by_itself_says_what_it_printed(tries: Try) -> None:
    with pytest.raises(EndedBeforePress, match=r"ended with status 3 before it was cancelled\n.*\nsorry"):
        tries(agent_of([sys.executable, "-c", "print('sorry'); raise SystemExit(3)"], origin="test"), "streaming-term")


def test_an_agent_that_never_asks_never_worked(tries: Try) -> None:
    agent = agent_of([sys.executable, "-c", "print('idle', flush=True); import time; time.sleep(60)"], origin="test")
    told = r"while it streams an answer, and did not come to that within 1 s \(the term start, --start-within of .*\)\n.*\nidle"
    with pytest.raises(AgentNeverWorked, match=told):
        tries(agent, "streaming-term", terms=replace(TERMS, start_s=1.0))


def test_a_refusal_of_the_provider_is_told_as_the_agents_end(tries: Try) -> None:
    with pytest.raises(EndedBeforePress, match="ended with status 1"):
        tries(sample("ends_its_tools"), "streaming-term", script=[Failure(400)])


def test_a_script_of_ones_own_runs_the_tool_where_it_says(tries: Try) -> None:
    result = tries(sample("leaves_its_tools"), "tool-term", script=[ToolCall("setsid {tool} >/dev/null 2>&1 & echo 'It runs.'"), Stream()])
    assert "agent-tool" in survivors(result.history)
    # The shell did not wait, so the agent was at its second request.
    assert sum(not one.data["side"] for one in result.history.of("meter", "request")) == 2


# ---------------------------------------------------------------------- what it is given


@pytest.mark.parametrize(
    "name",
    ["ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "AWS_PROFILE", "DATABASE_URL", "PGPASS", "SSH_AUTH_SOCK", "HTTPS_PROXY", "NPM_CONFIG__AUTH"],
)
def test_the_users_keys_are_kept_back(name: str) -> None:
    assert not is_passed(name)


@pytest.mark.parametrize("name", ["PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "CANCELCONTRACT_PROVIDER"])
def test_what_an_agent_needs_is_left(name: str) -> None:
    assert is_passed(name)


def test_no_key_of_the_user_reaches_the_agent_or_the_history(tries: Try) -> None:
    """It prints its environment and ends, which is the error's text; so is all that it was given."""
    code = "import os; print(sorted(os.environ.items())); raise SystemExit(3)"
    environment = {**os.environ, "ANTHROPIC_API_KEY": "sk-precious", "DATABASE_URL": "pg://u:precious-2@db", "KEPT": "kept-3"}
    agent = agent_of([sys.executable, "-c", code], origin="test").passing(["KEPT"])
    with pytest.raises(EndedBeforePress) as told:
        tries(agent, "streaming-term", environment=environment)
    assert "('KEPT', '" in str(told.value) and "precious" not in str(told.value)


def test_an_agent_has_folders_of_its_own(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    made = Surroundings.make(tmp_path, workspace, {".agent/settings.json": "{}"})
    given = {"HOME": "/home/somebody", "TMPDIR": "/tmp", "XDG_CONFIG_HOME": "/home/somebody/.config", "PATH": "/bin"}
    environment = made.environment(given, {"OWN": "1"})
    assert environment["HOME"] == str(made.home) and environment["TMPDIR"] == str(made.temporary)
    assert "XDG_CONFIG_HOME" not in environment and environment["PATH"] == "/bin" and environment["OWN"] == "1"
    assert (made.home / ".agent" / "settings.json").read_text() == "{}"
    left = made.left()
    assert left["home"] == {"files": 1, "names": [".agent"], "sockets": [], "locks": [], "mounts": []}
    assert left["workspace"]["files"] == 0


def test_an_agent_that_never_asked_is_said_to_have_asked_nothing(tries: Try) -> None:
    idle = agent_of([sys.executable, "-c", "import time; time.sleep(60)"], origin="test")
    result = tries(idle.passing(["TMUX"]), "spawn-term")
    told = {check.clause: check.finding.observed for check in result.checks}
    assert told["spend-stops"] == told["requests-closed"] == "the provider was never asked anything"
    assert any("never asked the provider" in line for line in lines(result))
    assert any(line.endswith("of your environment also TMUX") for line in lines(result))


MOUNTED = """
import os, sys
from pathlib import Path
from pytest_cancelcontract.agents.report import _found
from pytest_cancelcontract.agents.surroundings import Surroundings
folder = Path(sys.argv[1])
left = Surroundings(folder, folder, folder).left()["workspace"]
assert left["mounts"] == [str(folder / "inner")] and left["files"] == 1, left
print(_found(left))
"""


def test_what_an_agent_leaves_mounted_is_named_and_not_entered(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "own.txt").touch()
    told = in_a_namespace('mount -t tmpfs none "$1/inner" && touch "$1/inner/theirs"', MOUNTED, tmp_path)
    assert told == f"1 files, in own.txt; mounted, so that this folder cannot be removed: {tmp_path.resolve() / 'inner'}\n"


@pytest.mark.parametrize("swapped", ["workspace", "agent", "agent/home"])
def test_a_place_that_has_become_a_link_is_told_and_not_followed(tmp_path: Path, swapped: str) -> None:
    (folder := tmp_path / "root" / "d1").mkdir(parents=True)
    (tmp_path / "theirs" / "home").mkdir(parents=True)
    (tmp_path / "theirs" / "home" / "file").touch()
    (folder / "workspace").mkdir()
    made = Surroundings.make(folder, folder / "workspace", {})
    (folder / swapped).rename(folder / "old")
    (folder / swapped).symlink_to(tmp_path / "theirs")
    told = made.left()["workspace" if swapped == "workspace" else "home"]
    link = f"{folder / swapped} -> {tmp_path / 'theirs'}"
    assert told == {"files": 0, "names": [], "sockets": [], "locks": [], "mounts": [], "link": link}


@pytest.mark.usefixtures("digs")
def test_what_lies_deep_is_counted_and_what_is_too_much_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path
    for _ in range(1100):
        path /= "d"
        path.mkdir()
    (path / "file").touch()
    made = Surroundings(tmp_path, tmp_path, tmp_path)
    assert made.left()["workspace"] == {"files": 1, "names": ["d"], "sockets": [], "locks": [], "mounts": []}
    monkeypatch.setattr("pytest_cancelcontract.agents.surroundings.LOOKED_AT_MOST", 1000)
    assert made.left()["workspace"]["more"]


def test_what_lies_around_is_in_the_history(tries: Try) -> None:
    history = tries(sample("leaves_its_tools"), "tool-term").history
    seen = history.last("workspace", "lies-around")
    assert seen is not None
    assert "uncooperative-tool.log" in seen.data["places"]["workspace"]["names"]
    assert seen.data["places"]["home"]["files"] == 0


# ---------------------------------------------------------------------- the tables


def test_every_profile_is_found_by_its_id_and_has_its_places_filled() -> None:
    values = {"prompt": "P", "provider": "http://127.0.0.1:1/key", "workspace": "/w", "home": "/h"}
    for profile in PROFILES:
        assert agent_of(profile.id, origin="test") is profile
        argv, env, files = profile.filled(values)
        everything = " ".join([*argv, *env.values(), *files.values()])
        assert "http://127.0.0.1:1/key" in everything and "P" in argv
        assert not any(f"{{{name}}}" in everything for name in values)
        assert profile.package


def test_a_long_name_is_allowed_as_the_process_table_has_it() -> None:
    allowed = agent_of("agent", origin="test").allowing({"a-helper-with-a-long-name": "why"}).allowed
    assert allowed == {"a-helper-with-a": "why"}


@pytest.mark.parametrize(("name", "reason"), [("helperd", ""), ("helperd", "  "), ("", "why")])
def test_a_helper_is_allowed_with_a_reason_only(name: str, reason: str) -> None:
    with pytest.raises(BadCommand, match="needs a name and a reason"):
        agent_of("agent", origin="test").allowing({name: reason})


def test_an_unknown_brace_is_refused() -> None:
    with pytest.raises(BadCommand, match=r"unknown brace \{runner\}.*--agent"):
        agent_of("agent {runner}", origin="--agent")


def test_each_moment_and_way_is_a_trial_of_its_own() -> None:
    assert len({one.id for one in TRIALS}) == len(TRIALS) == 28
    assert {one.placement for one in MOMENTS if one.placement is not None} == set(PLACEMENTS)
    assert all(trial(one.id) is one for one in TRIALS)


def test_trials_are_chosen_by_id_pattern_and_set() -> None:
    assert [one.id for one in select(["tool-*-hup"])] == ["agent-tool-nohup-hup", "agent-tool-setsid-hup", "agent-tool-daemon-hup"]
    assert select([]) == select(["core"]) == tuple(one for one in TRIALS if one.is_core)
    assert {one.id for one in TRIALS} - {one.id for one in select(["all", "!*-int"])} == {one.id for one in select(["*-int"])}
    assert select(["!*-int"]) == tuple(one for one in TRIALS if one.is_core and not one.id.endswith("-int"))
    with pytest.raises(UnknownTrial, match="no trial 'tool-kill'"):
        select(["tool-kill"])


def test_a_trial_may_be_put_together_of_any_signal() -> None:
    assert trial_of("tool", "TERM") == trial("tool-term")
    assert trial_of("tool", "SIGTERM", "group") == trial("tool-term-group")
    assert trial_of("streaming", "quit").way.signal == "SIGQUIT"
    for wrong in (("nowhere", "TERM", "pid"), ("tool", "NONE", "pid"), ("tool", "TERM", "session")):
        with pytest.raises(UnknownTrial):
            trial_of(*wrong)
