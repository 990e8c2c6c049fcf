"""Breakpoints as a caller sees them, and the answers to their questions."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableSequence, Sequence
from typing import Final

from archon.api.common.v1 import common_pb2, question_pb2
from archon.json_text import json_object
from archon.wire import text_of
from archon_mesh.core.people import CALLS, Breakpoint, BreakpointPoint
from archon_mesh.engine import RunState, Task
from archon_mesh.engine.types import BREAKPOINT_NOT_HELD, Failure, Payload
from archon_services.orchestrator.convert.failures import failure_to_proto
from archon_services.orchestrator.convert.people import breakpoint_to_proto, given_from_payload

ANSWER: Final = "answer"
INPUT: Final = "input"
SCHEMA: Final = json.dumps(
    {
        "type": "object",
        "properties": {INPUT: {"type": "string", "minLength": 1}, ANSWER: {"type": "string", "minLength": 1}},
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": False,
    }
)
"""Schema of the replacement for a task that is held before its dispatch: its input, or its answer."""


def write_breakpoints(run: RunState, out: MutableSequence[question_pb2.Breakpoint]) -> None:
    """Adds the breakpoints of a run, each with the tasks whose attempts do not hold at it."""
    for each in run.breakpoints:
        target = breakpoint_to_proto(each)
        if each.point in CALLS:
            target.unheld.extend(_unheld(run, each))
        out.append(target)


def _unheld(run: RunState, wanted: Breakpoint) -> Iterator[question_pb2.UnheldTask]:
    for task in run.tasks.values():
        if not task.attempt or not _may_call(task, wanted):
            continue
        if task.ignores_breakpoints:
            message = (
                f"the runtime of {task.instance_id} cannot hold: it serves {task.role} without asking before calls"
            )
        elif task.live and wanted not in task.breakpoints:
            message = f"attempt {task.attempt} was dispatched before the breakpoint was set"
        else:
            continue
        metadata = (("instance_id", task.instance_id), ("role", task.role))
        failure = Failure("FAILED_PRECONDITION", BREAKPOINT_NOT_HELD, message, metadata)
        unheld = question_pb2.UnheldTask(task_id=task.task_id, role=task.role, attempt=task.attempt)
        unheld.failure.CopyFrom(failure_to_proto(failure))
        yield unheld


def _may_call(task: Task, wanted: Breakpoint) -> bool:
    return wanted.point is not BreakpointPoint.MODEL or wanted.matches(BreakpointPoint.MODEL, task.role)


def call_breakpoints(run: RunState, task: Task) -> list[question_pb2.Breakpoint]:
    """Returns the breakpoints at which the runtime of the current attempt holds."""
    if task.ignores_breakpoints:
        return []
    return [breakpoint_to_proto(each) for each in run.breakpoints if each.point in CALLS]


def given_answer(parts: Sequence[common_pb2.Part]) -> str | None:
    """Returns the answer that a modification at a breakpoint gives in place of the task's execution; None if it gives
    an input."""
    return _values(parts).get(ANSWER)


def edited_input(payload: Payload) -> str | None:
    """Returns the input that a modification at a breakpoint gives; None if it gives an answer."""
    return _values(given_from_payload(payload).parts).get(INPUT)


def _values(parts: Sequence[common_pb2.Part]) -> dict[str, str]:
    data = next((part.data_json for part in parts if part.data_json), "") or text_of(parts)
    values = json_object(data) or {}
    return {name: text for name in (ANSWER, INPUT) if isinstance(text := values.get(name), str)}
