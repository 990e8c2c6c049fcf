"""Events of runs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from archon.api.orchestrator.v1 import run_pb2
from archon.types.json_value import json_value
from archon.types.message_view import MessageView
from archon.types.task_ref import TaskRef
from archon.wire import to_seconds


class RunEvent(MessageView[run_pb2.RunEvent]):
    """An event of a run: its kind (`type`), and its content (`data`)."""

    __slots__ = ()

    _SHOWN = ("seq", "type", "task_id")

    @property
    def run_id(self) -> str:
        """The run."""
        return self.proto.run_id

    @property
    def seq(self) -> int:
        """The event's number in the run, contiguous from 1; 0 for a transient event, such as a piece of text."""
        return self.proto.seq

    @property
    def time(self) -> float:
        """When it was decided, by the clock of the run's owner, in seconds since the epoch."""
        return to_seconds(self.proto.time)

    @property
    def type(self) -> str:
        """The kind of event, such as `dispatched`, `result` or `text_delta`: the names of the contract; empty if it is
        unknown to this version."""
        return self.proto.WhichOneof("event") or ""

    @property
    def task_id(self) -> str:
        """The task that the event concerns; empty if it concerns the run."""
        return self.proto.task.task_id

    @property
    def task(self) -> TaskRef | None:
        """The attempt that the event concerns; None if it concerns the run."""
        return TaskRef.from_proto(self.proto.task) if self.proto.HasField("task") else None

    @property
    def data(self) -> Mapping[str, Any]:
        """The fields of the event as JSON types, by the names of the contract: times and durations in seconds, names of
        enums in lower case, bytes as base64. Fields that are messages are missing if they are not set."""
        kind = self.proto.WhichOneof("event")
        return MappingProxyType(json_value(getattr(self.proto, kind)) if kind else {})
