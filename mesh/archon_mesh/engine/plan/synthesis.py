"""The last step of a task: one answer of all results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from archon_mesh.core.messages import ChatMessage
from archon_mesh.engine.plan.order import dependants
from archon_mesh.engine.plan.subtask import SubTask, SubTaskStatus
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import as_text

MAX_SHOWN: Final = 20_000
"""Characters of one result that the model sees."""

_FIRST: Final = "You write the answer to a query from the results of the steps that were taken for it."
_RULES: Final = (
    " The user's JSON object has the query, the goal and the results. Answer the query completely and directly; do not "
    "describe the steps. Use only the results, and say what is missing if a step has none. `refused` says why an "
    "earlier answer was not accepted."
)


def final_results(task: Task) -> list[SubTask]:
    """Returns the completed subtasks on whose results no other completed one builds."""
    dag, completed = dependants(task), task.completed_ids
    return [each for each in task.subtasks if each.id in completed and completed.isdisjoint(dag[each.id])]


def only_result(task: Task) -> str | None:
    """Returns the answer of a task as text if no model has to write it: nothing is missing, and one result is the
    final one."""
    final = final_results(task)
    is_complete = all(subtask.status is SubTaskStatus.COMPLETED for subtask in task.subtasks)
    return as_text(final[0].result) if is_complete and len(final) == 1 else None


def synthesis_messages(task: Task, problem: str = "") -> list[ChatMessage]:
    """Returns the messages for the model that writes the answer of a task. `problem` says why an earlier answer was
    refused."""
    results = [
        {"step": subtask.description, "status": subtask.status.value, "result": as_text(subtask.result)[:MAX_SHOWN]}
        for subtask in task.subtasks
    ]
    data = {"query": task.original_query, "goal": task.goal, "results": results}
    if problem:
        data["refused"] = problem
    return [
        ChatMessage("system", _FIRST + _RULES),
        ChatMessage("user", json.dumps(data, ensure_ascii=False, default=str)),
    ]


def read_synthesis(messages: Sequence[ChatMessage]) -> list[dict[str, Any]] | None:
    """Returns the results that an answer must be written from, or None if these messages do not ask for one."""
    if not any(message.role == "system" and message.content.startswith(_FIRST) for message in messages):
        return None
    query = next((message.content for message in reversed(messages) if message.role == "user"), "")
    try:
        results = json.loads(query)["results"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return [each for each in results if isinstance(each, dict)] if isinstance(results, list) else None
