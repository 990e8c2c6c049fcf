"""Errors of a PostgreSQL server as errors of Archon."""

from __future__ import annotations

import asyncpg
import pytest

from archon.errors import DataLoss
from archon_services.postgres.errors import to_archon_error


@pytest.mark.parametrize("error", [asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError])
def test_a_damaged_page_is_data_loss(error: type[asyncpg.PostgresError]) -> None:
    converted = to_archon_error(error("invalid page in block 7 of relation base/5/16388"), "db.example:5432")
    assert isinstance(converted, DataLoss)
    assert converted.message == (
        "the database at db.example:5432 is damaged: invalid page in block 7 of relation base/5/16388"
    )
