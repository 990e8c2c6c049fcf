"""Collects the garbage of a course right after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    """Collects garbage after each test. The remains of an abandoned course log tracebacks when they are collected;
    while Python 3.11 parses source text that becomes a SystemError."""
    yield
    gc.collect()
