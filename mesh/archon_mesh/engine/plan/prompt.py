"""The messages for a planner: rules, and a JSON object with the query, the tools, the roles and the progress so far.

One object, so that no text of a query or of a result can pass for anything else, and the offline model can read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from archon.json_text import json_object
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.shorten import shortened
from archon_mesh.engine.plan.faults import MAX_SUBTASKS, PlanFault
from archon_mesh.engine.plan.task import Task
from archon_mesh.engine.plan.templates import as_text

MAX_SHOWN: Final = 2_000
"""Characters of a result of a completed subtask, and of a value of the context, that a planner sees."""

MAX_FAULTS: Final = 20
"""Faults that are sent back to a planner."""

_FIRST: Final = "You are a planner: you split a query into subtasks, which others execute."
_RULES: Final = """
The query, the tools, the roles and the context are in the JSON object of the user. Reply with one JSON object, and
nothing else:

{"goal": "what the query asks for, in your words",
 "subtasks": [{"id": "1", "description": "what is to be done, with all that must be known for it",
   "expected_output": "what its result is", "tool_name": "", "tool_args": {}, "dependencies": [], "critical": false,
   "role": "", "estimated_seconds": 5, "confidence": 0.9}]}

- At most %(max_subtasks)d subtasks, and no more than necessary. Each does one thing and has its own id.
- `dependencies` has the ids of the subtasks whose results it needs. Subtasks that do not depend on each other are
  executed at the same time. There must be no cycle.
- `tool_name` is one of the tools, or empty; the subtask can use no other tool. `tool_args` follows the tool's schema.
  In it, {1} stands for the result of subtask 1, {1.price} for a field of that result, and {city} for a value of the
  context. Leave `tool_args` empty if the values are known only from reading results.
- `role` is one of the roles, or empty. A subtask with neither tool nor role is answered by thinking alone.
- `critical` is true if the query cannot be answered without the subtask. `"partial_input": true` lets it start although
  a dependency has failed.
- `confidence`, from 0 to 1, is how sure you are that the subtask can be done.
- `"expand": true` marks a subtask of which you cannot say yet how it is done, because that depends on results. Once its
  dependencies have completed, you are asked for the subtasks that take its place."""
_PROFILES: Final = """
- `profiles` has what is known about the roles: their tools and capabilities, how to give work to them, and what a task
  of theirs takes. A subtask with a tool goes to a role that has it. Estimate by `seconds` and `cost_micro_usd`."""
_TEMPLATES: Final = """
- `templates` are plans that are made already. If one of them does what the query asks for, reply
  {"template": "its name", "arguments": {...}} instead, with arguments that match its `parameters`."""
_QUESTION: Final = """
- If you need an answer of the person who asked, in order to plan at all, reply {"question": "..."} instead, once."""
_REPLAN: Final = """
- `progress` is what happened so far, and `reason` why a new plan is needed. Plan only what is left. Completed subtasks
  are done and are never repeated: refer to them by their ids. Avoid what failed; find another way to the goal.
- Split each subtask that is listed in `split` into smaller ones."""
_EXPAND: Final = """
- `progress` is what happened so far. `expand` has the ids of the subtasks in whose place you plan now, with the results
  in `progress`; of those, a subtask that failed is to be replaced. Reply with the new subtasks only, each with an id
  that is not in `progress`: all other subtasks stay. They depend on subtasks in `progress` by their ids."""
REPLY_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "goal": {"type": "string"},
        "subtasks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    **{name: {"type": "string"} for name in ("id", "description", "expected_output", "tool_name")},
                    "tool_args": {"type": "object"},
                    "dependencies": {"type": "array", "items": {"type": "string"}},
                    **{name: {"type": "string"} for name in ("role", "capability")},
                    **{name: {"type": "boolean"} for name in ("critical", "partial_input", "expand")},
                    **{name: {"type": "number"} for name in ("estimated_seconds", "estimated_cost_micro_usd")},
                    "confidence": {"type": "number"},
                },
                "required": ["id", "description"],
            },
        },
        "question": {"type": "string"},
        "template": {"type": "string"},
        "arguments": {"type": "object"},
    },
}
"""The possible replies of a planner: a plan, a question, or a template with its arguments."""

_AGAIN: Final = "Reply with the whole corrected plan, as one JSON object and nothing else."


@dataclass(frozen=True, slots=True)
class RoleProfile:
    """A planner's knowledge about a role beside its description: its tools, its capabilities, how to give work to it,
    and the time and cost of a task. 0 means unknown; cost is in millionths of a US dollar, quality from 0 to 1."""

    tools: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    instructions: str = ""
    seconds: float = 0.0
    cost_micro_usd: int = 0
    quality: float = 0.0

    @property
    def known(self) -> dict[str, Any]:
        """The known fields, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name))}


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """The input of a planner. `tools` have name, description and parameters, and so have `templates`; `roles` have
    descriptions by name, and `profiles` the other facts about them; `split` has the ids of the subtasks to split,
    `expand` of those that the planner replaces. `progress` is None for a first plan."""

    query: str
    tools: Sequence[Mapping[str, Any]] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    capabilities: Sequence[str] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    progress: Sequence[Mapping[str, Any]] | None = None
    reason: str = ""
    split: Sequence[str] = ()
    expand: Sequence[str] = ()
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    templates: Sequence[Mapping[str, Any]] = ()


def planner_messages(
    planner_input: PlannerInput, *, may_ask: bool = False, max_subtasks: int = MAX_SUBTASKS
) -> list[ChatMessage]:
    """Returns the messages for a planner's model. `may_ask` allows a question to the person who asked."""
    rules = _FIRST + _RULES % {"max_subtasks": max_subtasks}
    if may_ask:
        rules += _QUESTION
    data: dict[str, Any] = {"query": planner_input.query}
    if planner_input.templates:
        rules += _TEMPLATES
    for key in ("tools", "roles", "profiles", "capabilities", "templates"):
        if value := getattr(planner_input, key):
            data[key] = value if isinstance(value, Mapping) else list(value)
    if planner_input.context:
        data["context"] = {key: _shown(value) for key, value in planner_input.context.items()}
    if planner_input.capabilities:
        rules += '\n- `"capability"` may be one of the capabilities: any role that has it does the subtask.'
    if planner_input.profiles:
        rules += _PROFILES
    if planner_input.progress is not None and planner_input.expand:
        rules += _EXPAND
        data |= {"progress": list(planner_input.progress), "expand": list(planner_input.expand)}
    elif planner_input.progress is not None:
        rules += _REPLAN
        data |= {"progress": list(planner_input.progress), "reason": planner_input.reason}
        data |= {"split": list(planner_input.split)} if planner_input.split else {}
    return [ChatMessage("system", rules), ChatMessage("user", json.dumps(data, ensure_ascii=False, default=str))]


def read_planner_input(messages: Sequence[ChatMessage]) -> PlannerInput | None:
    """Returns a planner's input, or None if these are no messages for a planner."""
    if not any(message.role == "system" and message.content.startswith(_FIRST) for message in messages):
        return None
    for message in messages:
        data = json_object(message.content) or {} if message.role == "user" else {}
        if isinstance(data.get("query"), str):
            names = ("tools", "roles", "capabilities", "context", "progress", "reason", "split", "expand", "profiles")
            return PlannerInput(data["query"], **{name: data[name] for name in names if name in data})
    return None


def progress_of(task: Task) -> list[dict[str, Any]]:
    """Returns the progress of a task as a planner sees it: each subtask, its status, and its result or error."""
    progress = []
    for subtask in task.subtasks:
        entry: dict[str, Any] = {"id": subtask.id, "description": subtask.description, "status": subtask.status.value}
        entry |= {"tool_name": subtask.tool_name} if subtask.tool_name else {}
        entry |= {"role": subtask.role} if subtask.role else {}
        entry |= {"result": _shown(subtask.result)} if subtask.result is not None else {}
        progress.append(entry)
    return progress


def faults_message(faults: Iterable[PlanFault | str]) -> ChatMessage:
    """Returns the message that sends a plan back to its planner."""
    messages = [fault if isinstance(fault, str) else fault.message for fault in faults]
    lines = [f"- {message}" for message in messages[:MAX_FAULTS]]
    if len(messages) > MAX_FAULTS:
        lines.append(f"- and {len(messages) - MAX_FAULTS} more")
    return ChatMessage("user", "\n".join(["Your plan cannot be executed:", *lines, _AGAIN]))


def _shown(value: Any) -> Any:
    text = as_text(value)
    return value if len(text) <= MAX_SHOWN else shortened(text, MAX_SHOWN)
