"""``python -m pytest_cancelcontract.cli``."""

from __future__ import annotations

import sys

from pytest_cancelcontract.cli import main

sys.exit(main())
