"""After each course the garbage goes at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    """What an abandoned course leaves says so as it is collected, with tracebacks; in the middle of parsing something
    that is a SystemError (Python 3.11)."""
    yield
    gc.collect()
