"""The fixtures of the failure table, and its short form, of which `make test-slow` consists: all rows run with
ARCHON_FAILURES=all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.failures.arenas import (
    arena,
    clustered_arena,
    jumping_arena,
    own_store_arena,
    small_disk_arena,
    valved_arena,
)
from tests.fixtures.small_disk import small_disk

__all__ = [
    "arena",
    "clustered_arena",
    "jumping_arena",
    "own_store_arena",
    "small_disk",
    "small_disk_arena",
    "valved_arena",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects rows that are not marked as short, unless ARCHON_FAILURES=all."""
    here = f"{Path(__file__).parent}{os.sep}"
    long = [item for item in items if str(item.path).startswith(here) and not item.get_closest_marker("short")]
    if long and os.environ.get("ARCHON_FAILURES") != "all":
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
