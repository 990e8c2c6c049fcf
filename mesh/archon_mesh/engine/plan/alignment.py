"""The question whether a plan in progress still serves its query, and the verdict of a model on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan.replan import MAX_PROBLEM
from archon_mesh.engine.plan.subtask import SubTask
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import as_text

MAX_QUERY_SHOWN: Final = 20_000
"""Characters of the query, and of the goal, that the model sees."""

MAX_RESULT_SHOWN: Final = 2_000
"""Characters of one result."""

MAX_RESULTS_SHOWN: Final = 60_000
"""Characters of all results; the latest ones are shown first."""

MAX_STEPS_SHOWN: Final = 100
"""Steps that have ended, and steps that remain, that the model sees."""

MAX_STEP_SHOWN: Final = 500
"""Characters of the description of a step, and of its arguments."""

_FIRST: Final = "You check whether a plan that is being executed still leads to what its query asks for."
_RULES: Final = """
The user's JSON object has the query, the goal as the planner understood it, the results so far, and the steps that
remain. Reply with one JSON object and nothing else:

{"aligned": true, "problem": ""}

- `aligned` is false only if the remaining steps, with the results so far, do not lead to an answer to the query: the
  plan follows another aim, the results show that it rests on a wrong assumption, or something that the query asks for
  is missing. `problem` then says so in one sentence, for the planner that makes another plan.
- A failed step alone is no reason, and neither is a plan that could be better: if in doubt, the plan is aligned."""
_NO_PROBLEM_SAID: Final = "it does not lead to what the query asks for"


def alignment_messages(task: Task) -> list[ChatMessage]:
    """Returns the messages for the model that checks whether a task still serves its query."""
    ended = [subtask for subtask in task.subtasks if subtask.has_ended]
    remaining = [subtask for subtask in task.subtasks if not subtask.has_ended]
    data: dict[str, Any] = {
        "query": shortened(task.original_query, MAX_QUERY_SHOWN),
        "goal": shortened(task.goal, MAX_QUERY_SHOWN),
        "results": _results(ended[-MAX_STEPS_SHOWN:]),
        "remaining": [_step(subtask) for subtask in remaining[:MAX_STEPS_SHOWN]],
    }
    if len(remaining) > MAX_STEPS_SHOWN:
        data["remaining_besides"] = len(remaining) - MAX_STEPS_SHOWN
    return [
        ChatMessage("system", _FIRST + _RULES),
        ChatMessage("user", json.dumps(data, ensure_ascii=False, default=str)),
    ]


def asks_for_alignment(messages: Sequence[ChatMessage]) -> bool:
    """Tells whether these messages ask for a verdict on the alignment of a plan."""
    return any(message.role == "system" and message.content.startswith(_FIRST) for message in messages)


def read_misalignment(reply: Any) -> str:
    """Returns why a plan does not serve the query any more, as a reply says; empty if it is aligned, or the reply is no
    verdict."""
    if not isinstance(reply, dict) or reply.get("aligned", True) is not False:
        return ""
    said = reply.get("problem") or reply.get("reason")
    problem = said.strip() if isinstance(said, str) else ""
    return shortened(problem, MAX_PROBLEM) or _NO_PROBLEM_SAID


def _results(ended: Sequence[SubTask]) -> list[dict[str, Any]]:
    room, results = MAX_RESULTS_SHOWN, []
    for subtask in reversed(ended):
        entry = _step(subtask) | {"status": subtask.status.value}
        if subtask.result is not None and room > 0:
            shown = shortened(as_text(subtask.result), min(room, MAX_RESULT_SHOWN))
            room -= len(shown)
            entry["result"] = shown
        results.append(entry)
    return results[::-1]


def _step(subtask: SubTask) -> dict[str, Any]:
    entry = {"id": subtask.id, "description": shortened(subtask.description, MAX_STEP_SHOWN)}
    entry |= {"tool_name": subtask.tool_name} if subtask.tool_name else {}
    entry |= {"tool_args": shortened(as_text(dict(subtask.tool_args)), MAX_STEP_SHOWN)} if subtask.tool_args else {}
    return entry | ({"role": subtask.role} if subtask.role else {})
