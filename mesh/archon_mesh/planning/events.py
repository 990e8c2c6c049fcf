"""The events of the execution of a plan."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from archon_mesh.engine.plan import SubTask, Task

_log = logging.getLogger(__name__)


class PlanEventKind(StrEnum):
    """The kind of a PlanEvent."""

    DECIDED = "decided"
    CREATED = "created"
    SUBTASK_STARTED = "subtask_started"
    SUBTASK_RETRIED = "subtask_retried"
    SUBTASK_COMPLETED = "subtask_completed"
    SUBTASK_FAILED = "subtask_failed"
    SUBTASK_SKIPPED = "subtask_skipped"
    REPLANNING = "replanning"
    REPLANNED = "replanned"
    EXPANDED = "expanded"
    EDITED = "edited"
    PAUSED = "paused"
    RESUMED = "resumed"
    CONTINUED = "continued"
    ASKED = "asked"
    ANSWERED = "answered"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """One event. `task` is the plan as it was then, None before there is one; `subtask` is set if it concerns one;
    `message` says why. `question` is the id of a question that was asked, with its text as the message, or closed, with
    the way in which it was."""

    kind: PlanEventKind
    task: Task | None = None
    subtask: SubTask | None = None
    message: str = ""
    question: str = ""


PlanEventHandler = Callable[[PlanEvent], Any]
"""Receives every event of a plan; sync or async."""


async def report(handler: PlanEventHandler | None, event: PlanEvent) -> None:
    """Calls the handler, if there is one. One that raises is logged and does not affect the plan."""
    if handler is None:
        return
    try:
        result = handler(event)
        if inspect.isawaitable(result):
            await result
    except Exception:  # noqa: BLE001 - an event handler must not fail the plan
        _log.exception("the event handler of a plan raised on %s", event.kind)
