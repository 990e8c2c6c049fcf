"""The message to the model or the agent of one subtask."""

from __future__ import annotations

from typing import Final

from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan import SubTask, SubTaskStatus, Task
from archon_mesh.engine.plan.templates import as_text

MAX_RESULT_SHOWN: Final = 20_000
"""Characters of one result of an earlier subtask."""

MAX_RESULTS_SHOWN: Final = 100_000
"""Characters of all results of earlier subtasks."""


def subtask_message(task: Task, subtask: SubTask, problem: str = "") -> str:
    """Returns the message for a subtask: its work, its expected output, and the results that it builds on.

    `problem` is the fault of the last attempt.
    """
    parts = [subtask.description or f"Use the tool {subtask.tool_name} for this goal: {task.goal}"]
    if subtask.expected_output:
        parts.append(f"Expected result: {subtask.expected_output}")
    if subtask.output_schema and (subtask.role or subtask.capability):
        schema = as_text(dict(subtask.output_schema))
        parts.append(f"The result is one JSON value and nothing else. It matches this JSON Schema: {schema}")
    if subtask.tool_name and subtask.tool_args:
        parts.append(f"Arguments as planned for the tool {subtask.tool_name}: {as_text(dict(subtask.tool_args))}")
    if results := _results(task, subtask):
        parts.append("Results of earlier steps:\n\n" + "\n\n".join(results))
    parts.append(f"This is one step towards: {task.goal}\nDo this step only, and reply with its result.")
    if problem:
        parts.append(f"The last attempt was not accepted: {problem}")
    return "\n\n".join(parts)


def _results(task: Task, subtask: SubTask) -> list[str]:
    room = MAX_RESULTS_SHOWN
    lines = []
    for id_ in subtask.dependencies:
        source = task.get_subtask(id_)
        if source is None:
            continue
        if source.status is SubTaskStatus.COMPLETED:
            shown = shortened(as_text(source.result), min(room, MAX_RESULT_SHOWN))
            room = max(0, room - len(shown))
            lines.append(f"[{id_}] {source.description}\n{shown}")
        else:
            lines.append(f"[{id_}] {source.description}\n(there is no result: it {source.status.value})")
    return lines
