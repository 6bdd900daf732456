"""pytest runs and wrappers as the plugin's own tests have them."""

from __future__ import annotations

from tests.plugin.conftest import broken, command, kept, plain_output, run

__all__ = ["broken", "command", "kept", "plain_output", "run"]
