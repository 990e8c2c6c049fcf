"""Reads stored bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DataLoss

M = TypeVar("M", bound=Message)


def from_journal(kind: type[M], data: bytes, run_id: str) -> M:
    """Decodes a message. Raises DataLoss if the bytes are no such message: the journal is wrong then, not the
    caller."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise DataLoss(f"the journal of run {run_id} cannot be decoded", metadata={"run_id": run_id}) from error


def events_of(data: bytes, run_id: str) -> Sequence[run_pb2.RunEvent]:
    """Decodes the events of a step. Raises DataLoss."""
    return from_journal(pb.WatchRunResponse, data, run_id).events
