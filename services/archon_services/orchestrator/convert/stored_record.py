"""Recorded calls as the journal stores them: compressed, if that makes them smaller.

A message never begins with a zero byte, which marks a compressed one: records of earlier releases are read as they are.
"""

from __future__ import annotations

from typing import Final

import zstandard

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss
from archon_services.orchestrator.convert.stored import from_journal

SMALLEST: Final = 256
"""Bytes from which on a record is compressed."""

LARGEST: Final = 64 * 1024 * 1024
"""Bytes that a record may have: far more than a frame of an agent."""

_PACKED: Final = b"\0z"
_packing: Final = zstandard.ZstdCompressor(level=1)
"""For the thread of the event loop. Zlib takes three times as long for the same size."""


def stored_record(record: run_pb2.RunRecord) -> bytes:
    """Returns the bytes of a record for the journal."""
    data = record.SerializeToString()
    if len(data) < SMALLEST:
        return data
    packed = _PACKED + _packing.compress(data)
    return packed if len(packed) < len(data) else data


def record_from_journal(data: bytes, run_id: str) -> run_pb2.RunRecord:
    """Returns a record by its bytes in the journal. Raises DataLoss if they are none."""
    if data.startswith(_PACKED):
        try:
            packed = data[len(_PACKED) :]
            if zstandard.frame_content_size(packed) > LARGEST:
                raise zstandard.ZstdError("too large")
            data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=LARGEST)
        except zstandard.ZstdError as error:
            raise DataLoss(f"the journal of run {run_id} cannot be decoded", metadata={"run_id": run_id}) from error
    return from_journal(run_pb2.RunRecord, data, run_id)
