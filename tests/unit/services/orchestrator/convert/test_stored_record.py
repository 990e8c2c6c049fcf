"""Recorded calls are compressed in the journal, and records of earlier releases are read as they are."""

from __future__ import annotations

from random import Random

import pytest
import zstandard

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_services.orchestrator.convert.stored_record import LARGEST, SMALLEST, record_from_journal, stored_record


def record_of(size: int) -> run_pb2.RunRecord:
    return run_pb2.RunRecord(role="writer", kind="model", target="m", request_json="a word of a prompt " * (size // 19))


@pytest.mark.parametrize("size", [0, SMALLEST - 40, SMALLEST, 5_000, 3_000_000])
def test_a_record_is_read_as_it_was_written(size: int) -> None:
    record = record_of(size)
    stored = stored_record(record)
    assert record_from_journal(stored, "r") == record
    assert len(stored) < record.ByteSize() / 3 if size >= 5_000 else len(stored) <= record.ByteSize()


def test_a_record_of_an_earlier_release_is_read() -> None:
    record = record_of(5_000)
    assert record_from_journal(record.SerializeToString(), "r") == record


def test_a_record_that_compresses_badly_is_stored_as_it_is() -> None:
    dice = Random(1)
    text = "".join(chr(dice.randint(0x4E00, 0x9FFF)) for _ in range(100))
    record = run_pb2.RunRecord(request_json=text)
    assert len(stored_record(record)) <= record.ByteSize()


@pytest.mark.parametrize(
    "data",
    [
        b"\0z",
        b"\0z" + b"x" * 100,
        stored_record(record_of(5_000))[:-5],
        b"\0z" + zstandard.compress(b"\xff" * 50),
        b"\0z" + zstandard.ZstdCompressor().compress(bytes(LARGEST + 1)),
        b"\0" * 10,
    ],
    ids=["empty", "no frame", "cut off", "no message", "a bomb", "zeros"],
)
def test_a_damaged_record_is_data_loss(data: bytes) -> None:
    with pytest.raises(DataLoss, match="the journal of run r cannot be decoded"):
        record_from_journal(data, "r")
