"""What a journal gives back as bytes."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from archon.errors import DataLoss

M = TypeVar("M", bound=Message)


def from_journal(kind: type[M], data: bytes, run_id: str) -> M:
    """Raises DataLoss where the bytes are no such message: a caller's own message is not what is wrong then."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise DataLoss(
            f"the journal of run {run_id} holds bytes that can't be read", metadata={"run_id": run_id}
        ) from error
