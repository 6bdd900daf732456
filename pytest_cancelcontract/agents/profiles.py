"""Agent command lines, as rows of data: how each is started so that it asks the scripted provider and nobody else."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_cancelcontract.adapters.words import BadCommand, Template

BRACES: tuple[str, ...] = ("prompt", "provider", "workspace", "home")
"""What may stand in an agent's command; in a profile's environment and files as well."""
DUMMY = "not-a-key"
"""All that an agent is given for a key."""
NAME_AT_MOST = 15
"""So long a name the process table can hold, proc_pid_comm(5)."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent command line.

    ``env`` is added to the environment that it gets, ``files`` are put below its home, by relative path. ``allowed`` are helpers that may
    outlive it, by the name that the process table has for them, each with its reason. ``passed`` are variables of the user's that it gets
    beside what any program needs. ``package`` is what npm calls it.
    """

    id: str
    command: Template
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    allowed: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    package: str = ""

    @property
    def name(self) -> str:
        """What it is called in reports: its profile's id, or its command."""
        return self.id or shlex.join(self.command.words)

    def filled(self, values: Mapping[str, str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Its command line, its variables and its files, with these values for :data:`BRACES`."""
        argv = self.command.fill(values)
        return argv, _filled(self.env, values), _filled(self.files, values)

    def allowing(self, more: Mapping[str, str]) -> Agent:
        """The same, with more helpers that may live on; of a longer name the process table has the beginning.

        Raises:
            BadCommand: a name or a reason is empty.
        """
        for name, reason in more.items():
            if not name.strip() or not reason.strip():
                raise BadCommand(f"a helper that may live on needs a name and a reason, got {name!r} with {reason!r}")
        return replace(self, allowed={**self.allowed, **{name[:NAME_AT_MOST]: reason for name, reason in more.items()}})

    def passing(self, names: Sequence[str]) -> Agent:
        """The same, which gets these variables of the user's as well.

        Raises:
            BadCommand: it is one text, of which each letter would be a name.
        """
        if isinstance(names, str):
            raise BadCommand(f"the variables that an agent gets are a list of names, got the text {names!r}: write [{names!r}]")
        return replace(self, passed=tuple(dict.fromkeys((*self.passed, *names))))


def _filled(texts: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    """With the four names replaced and no other brace, of which the files are full."""
    done = dict(texts)
    for name, value in values.items():
        done = {key: text.replace(f"{{{name}}}", value) for key, text in done.items()}
    return done


def _profile(id: str, package: str, command: str, *, env: Mapping[str, str], files: Mapping[str, str] | None = None) -> Agent:
    return Agent(id, Template.parse(command, allowed=BRACES, origin=f"the profile {id}"), env, files or {}, package=package)


_CODEX = """\
model = "gpt-5"
model_provider = "meter"

[model_providers.meter]
name = "meter"
base_url = "{provider}/v1"
env_key = "METER_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
_GEMINI = """\
{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"disableAutoUpdate": true, "enableAutoUpdate": false}
}
"""
_OPENCODE = """\
{
  "provider": {
    "meter": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "meter",
      "options": {"baseURL": "{provider}/v1", "apiKey": "not-a-key"},
      "models": {"meter": {"name": "meter", "tool_call": true}}
    }
  },
  "model": "meter/meter",
  "small_model": "meter/meter",
  "permission": {"*": "allow"},
  "autoupdate": false
}
"""

PROFILES: tuple[Agent, ...] = (
    _profile(
        "claude-code",
        "@anthropic-ai/claude-code",
        "claude -p {prompt} --allowedTools Bash --output-format stream-json --verbose",
        env={
            "ANTHROPIC_BASE_URL": "{provider}",
            "ANTHROPIC_API_KEY": DUMMY,
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    _profile(
        "codex",
        "@openai/codex",
        "codex exec --skip-git-repo-check --json --dangerously-bypass-approvals-and-sandbox {prompt}",
        env={"METER_KEY": DUMMY},
        files={".codex/config.toml": _CODEX},
    ),
    _profile(
        "codex-sandbox",
        "@openai/codex",
        "codex exec --skip-git-repo-check --json -s workspace-write {prompt}",
        env={"METER_KEY": DUMMY},
        files={".codex/config.toml": _CODEX},
    ),
    _profile(
        "gemini-cli",
        "@google/gemini-cli",
        "gemini -m gemini-2.5-pro --skip-trust --approval-mode yolo -o stream-json -p {prompt}",
        env={"GOOGLE_GEMINI_BASE_URL": "{provider}", "GEMINI_API_KEY": DUMMY},
        files={".gemini/settings.json": _GEMINI},
    ),
    _profile(
        "opencode",
        "opencode-ai",
        "opencode run --auto --format json --title drill {prompt}",
        env={},
        files={".config/opencode/opencode.json": _OPENCODE},
    ),
)


def agent_of(given: str | Sequence[str], *, origin: str) -> Agent:
    """The agent of a profile's id, or of a command line of one's own.

    Raises:
        BadCommand: the command is refused.
    """
    known = next((one for one in PROFILES if given == one.id), None)
    return known or Agent("", Template.parse(given, allowed=BRACES, origin=origin))
