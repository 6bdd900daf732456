"""``python -m pytest_cancelcontract.cli``."""

from __future__ import annotations

import sys

from pytest_cancelcontract.cli.command import main

sys.exit(main())
