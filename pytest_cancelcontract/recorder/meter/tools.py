"""How a command is run by whatever tools a client offers: which tool, and which arguments it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_cancelcontract.recorder.meter.wires.wire import BadRequest, Call, Offer

KNOWN = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "shell")
"""Tools that run a command: of claude-code, opencode, codex (three of them) and gemini-cli."""
COMMANDS = ("command", "cmd")
OTHERS: Mapping[str, Any] = {
    "description": "Run the command",
    "timeout": 600_000,
    "timeout_ms": 600_000,
    "yield_time_ms": 30_000,
    "is_background": False,
}
"""Given where a tool declares them: the longest times that the clients allow, so that they do not end the command themselves."""


def call_for(command: str, tool: str | None, offers: Sequence[Offer]) -> Call:
    """The call that runs the command.

    Raises:
        BadRequest: no such tool is offered, or none that runs commands.
    """
    offer = _chosen(tool, offers)
    # A tool without a schema is taken at its name.
    named = next((one for one in COMMANDS if one in offer.parameters), "cmd" if offer.name == "exec_command" else "command")
    is_list = offer.parameters.get(named) == "array"
    others = {name: value for name, value in OTHERS.items() if name in offer.parameters}
    return Call(offer.name, {named: ["bash", "-lc", command] if is_list else command} | others)


def _chosen(tool: str | None, offers: Sequence[Offer]) -> Offer:
    by_name = {one.name: one for one in offers}
    if tool is not None:
        if tool not in by_name:
            raise BadRequest(f"the script calls the tool {tool!r}, which the request does not offer; it offers {_listed(offers)}")
        return by_name[tool]
    known = next((by_name[name] for name in KNOWN if name in by_name), None)
    declares = next((one for one in offers if any(name in one.parameters for name in COMMANDS)), None)
    if found := known or declares:
        return found
    raise BadRequest(f"the script runs a command, and no tool of the request does; name one with ToolCall(tool=…): {_listed(offers)}")


def _listed(offers: Sequence[Offer]) -> str:
    return ", ".join(one.name for one in offers) or "none"
