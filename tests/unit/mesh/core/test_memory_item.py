"""Items of the shared memory: what is refused, and when one has expired."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.memory_item import MemoryItem


def item(**fields: Any) -> MemoryItem:
    return MemoryItem(**{"source_id": "a", "content": "text", "timestamp": 100.0, "version": 1, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source_id": ""}, "invalid memory item: source_id is empty"),
        ({"version": 0}, "invalid memory item: version 0 is below 1"),
        ({"ttl": 0.0}, "invalid memory item: ttl 0.0 is not a positive number of seconds"),
        ({"ttl": -1.0}, "invalid memory item: ttl -1.0 is not a positive number of seconds"),
        ({"ttl": float("inf")}, "invalid memory item: ttl inf is not a positive number of seconds"),
        ({"ttl": float("nan")}, "invalid memory item: ttl nan is not a positive number of seconds"),
    ],
)
def test_an_item_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        item(**fields)
    assert refused.value.message == message


def test_an_item_expires_after_its_ttl() -> None:
    assert not item().is_expired(1e12)
    assert [item(ttl=5.0).is_expired(now) for now in (104.9, 105.0, 106.0)] == [False, True, True]


def test_an_item_keeps_its_own_metadata() -> None:
    metadata = {"x": 1}
    kept = item(metadata=metadata)
    metadata["x"] = 2
    assert kept.metadata == {"x": 1}
