"""Predicates on events, by which a debugger finds the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types import RunEvent

Match = Callable[[RunEvent], bool]

_FAILED: Final = frozenset({common_pb2.TASK_STATE_FAILED, common_pb2.TASK_STATE_REJECTED})
_TROUBLES: Final = frozenset({"lost", "rejected", "retry", "question_timed_out"})


def any_event(event: RunEvent) -> bool:
    """Matches each event."""
    return True


def by_task(task_id: str) -> Match:
    """Returns a match for the events of a task."""
    return lambda event: event.task_id == task_id


def by_role(role: str, task_ids: frozenset[str]) -> Match:
    """Returns a match for the events of a role. `task_ids` are its tasks: few events name the role themselves."""
    return lambda event: event.task_id in task_ids or (not event.task_id and role_of(event) == role)


def by_kind(kind: str) -> Match:
    """Returns a match for the events of a kind, such as `dispatched`."""
    return lambda event: event.type == kind


def by_text(text: str) -> Match:
    """Returns a match for the events that contain a text, whatever its case: in a text of theirs, or as their kind."""
    wanted = text.casefold()

    def matches(event: RunEvent) -> bool:
        # The strings of a message stand in its bytes as they are.
        return wanted in event.type or wanted in event.proto.SerializeToString().decode(errors="ignore").casefold()

    return matches


def is_failure(event: RunEvent) -> bool:
    """Matches the events that say that something failed: a run, a task, an attempt, a question, a request of an
    attempt. A rejection by an instance is one: it takes an attempt."""
    kind, proto = event.type, event.proto
    match kind:
        case "result":
            return proto.result.state in _FAILED
        case "task_state":
            return proto.task_state.state in _FAILED
        case "run_state":
            return proto.run_state.state == common_pb2.TASK_STATE_FAILED
        case "approval_requested":
            return proto.approval_requested.result.state in _FAILED
        case "delegated" | "budget_reserved" | "message_sent":
            return bool(getattr(proto, kind).failure.message)
    return kind in _TROUBLES


def role_of(event: RunEvent) -> str:
    """Returns the role that an event itself names; empty if it names none."""
    content = getattr(event.proto, event.type) if event.type else run_pb2.RunEvent()
    return str(getattr(content, "role", ""))
