"""The command ``cancelcontract``: one file a subcommand, and the parser that knows them all."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_INTERRUPTED = 130
"""As a shell has it of what SIGINT ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status, which is the subcommand's, or 130 where Ctrl-C ended what does not take it itself."""
    try:
        # Imported here, which takes most of the time that a small subcommand needs: Ctrl-C may come meanwhile.
        from pytest_cancelcontract.cli import command

        return command.main(arguments)
    except KeyboardInterrupt:
        print("cancelcontract: interrupted", file=sys.stderr)
        return _INTERRUPTED
