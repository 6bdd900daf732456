"""A real meter for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.meter.provider import Provider


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A meter that listens; when it is closed, it must leave nothing."""
    one = Provider()
    yield one
    one.close()
