"""The command ``cancelcontract``: one file a subcommand, and the parser that knows them all."""

from __future__ import annotations

from pytest_cancelcontract.cli.command import main

__all__ = ["main"]
