"""The offline model as a planner: gives each step of a query the tool or role that fits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon_mesh.core.arithmetic import expression_in
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.text_index import Field, TextIndex
from archon_mesh.engine.plan.alignment import asks_for_alignment
from archon_mesh.engine.plan.prompt import PlannerInput, read_planner_input
from archon_mesh.engine.plan.split_query import split_query
from archon_mesh.engine.plan.synthesis import read_synthesis
from archon_mesh.llm.offline.coordinate import text_arguments
from archon_mesh.llm.offline.reply import NOTICE

_CALCULATOR: Final = "calculator arithmetic calculate compute mathematics math"


def write_plan(messages: Sequence[ChatMessage]) -> str | None:
    """Returns the reply to a planner's prompt, in JSON, to the prompt for the answer of a plan, or to the question
    whether a plan still serves its query, which no rule of text denies; None if these messages are none of them."""
    planner_input = read_planner_input(messages)
    if planner_input is not None:
        return json.dumps(_plan(planner_input), ensure_ascii=False)
    if asks_for_alignment(messages):
        return json.dumps({"aligned": True})
    results = read_synthesis(messages)
    return None if results is None else "\n\n".join([NOTICE, *map(_part, results)])


def _part(result: Mapping[str, Any]) -> str:
    text = str(result.get("result", "")).removeprefix(NOTICE).strip()
    if result.get("status") != "completed":
        text = "There is no result." if result.get("result") in (None, "null") else f"There is no result: {text}"
    return f"## {result.get('step', '')}\n\n{text}"


def _plan(planner_input: PlannerInput) -> dict[str, Any]:
    progress = planner_input.progress or ()
    done = {entry.get("description") for entry in progress if entry.get("status") == "completed"}
    failed = {entry.get("tool_name") for entry in progress if entry.get("status") == "failed"}
    tools = {str(tool.get("name")): tool for tool in planner_input.tools if tool.get("name") not in failed}
    subtasks = [
        {
            "id": str(number),
            "description": step.text,
            **_binding(step.text, planner_input.roles, tools),
            "dependencies": [str(source + 1) for source in step.after],
        }
        for number, step in enumerate(split_query(planner_input.query), start=1)
        if step.text not in done
    ]
    return {"goal": planner_input.query, "subtasks": subtasks}


def _binding(text: str, roles: Mapping[str, str], tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the tool with its arguments, or the role, that fits a step best; nothing if none fits."""
    tool_texts = {f"tool {name}": f"{name} {tool.get('description')}" for name, tool in tools.items()}
    role_texts = {f"role {name}": f"{name} {description}" for name, description in roles.items()}
    expression = expression_in(text)
    best = _best(_CALCULATOR, tool_texts) if expression else ""
    argument = expression if best else text
    best = best or _best(f"{text} {_CALCULATOR if expression else ''}", tool_texts | role_texts)
    kind, _, name = best.partition(" ")
    if kind == "tool":
        return _call(tools[name], argument)
    return {"role": name} if name else {}


def _best(query: str, texts: Mapping[str, str]) -> str:
    matches = TextIndex({name: [Field(text)] for name, text in texts.items()}).search(query)
    return matches[0].name if matches else ""


def _call(tool: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Returns a call of a tool with the text as its argument, or without arguments if it needs other ones."""
    # Braces of the query are no templates.
    arguments = text_arguments(tool.get("parameters") or {}, text.replace("{", "{{").replace("}", "}}")) or {}
    return {"tool_name": tool.get("name"), "tool_args": arguments if len(arguments) == 1 else {}}
