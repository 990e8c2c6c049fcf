"""Collects the garbage of a course right after it."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _tidy() -> Iterator[None]:
    """Collects garbage after each test. The remains of an abandoned course log tracebacks when they are collected;
    while Python 3.11 parses source text that becomes a SystemError. What existed before the test is left out: a
    collection of all that earlier tests have imported takes longer than a course."""
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture
def quiet() -> Iterator[None]:
    """Disables logging."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
