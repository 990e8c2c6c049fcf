"""The offline model as a coordinator: calls its tools in the recommended order, and combines their answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from archon_mesh.core.awareness import read_awareness
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import has_failed
from archon_mesh.llm.base import ToolSpec
from archon_mesh.llm.offline_plan import expression_in
from archon_mesh.llm.offline_tasks import NOTICE

_EXPRESSION: Final = "expression"


@dataclass(frozen=True, slots=True)
class _Results:
    """Results of the calls so far, by tool."""

    answers: Mapping[str, str]
    failures: Mapping[str, str]


def next_step(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Returns the text and the calls of the next reply: one call while a tool is left to call, then the final answer;
    None if the query has no arithmetic and the only tools are for that.

    Each tool is called once per query, with the query as its text arguments, in the order that the awareness message
    recommends, or else in the order of the tools; tools that the recommendation does not name come last. A tool that
    failed is not called again, and tools that depend on it are not called; nor are tools that need more than texts.
    """
    query_index = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    query = messages[query_index].content if query_index >= 0 else ""
    arguments = {tool.name: values for tool in tools if (values := _arguments(tool, query)) is not None}
    if not arguments and all(map(_calculates, tools)):
        return None
    results = _results(messages[query_index + 1 :])
    plan, upstream = _plan(messages, [tool for tool in tools if tool.name in arguments])
    skipped: dict[str, list[str]] = {}
    for name in plan:
        if name in results.answers or name in results.failures:
            continue
        missing = [source for source in upstream.get(name, ()) if source in results.failures or source in skipped]
        if missing:
            skipped[name] = missing
            continue
        call_count = sum(len(message.tool_calls) for message in messages)
        arguments_json = json.dumps(arguments[name], ensure_ascii=False)
        return "", (ToolCall(f"call_{call_count + 1}", name, arguments_json),)
    return _final_answer(plan, results, skipped), ()


def _arguments(tool: ToolSpec, query: str) -> dict[str, str] | None:
    """Returns the query for each required argument, or None if an argument is not a text."""
    properties: Mapping[str, Mapping[str, object]] = tool.parameters_schema.get("properties", {})
    required = tool.parameters_schema.get("required", ()) if "properties" in tool.parameters_schema else ("task",)
    if any(properties.get(name, {}).get("type", "string") != "string" for name in required):
        return None
    if _calculates(tool):
        expression = expression_in(query)
        return {_EXPRESSION: expression} if expression else None
    return dict.fromkeys(required, query)


def _calculates(tool: ToolSpec) -> bool:
    """Whether the tool takes nothing but an arithmetic expression."""
    return list(tool.parameters_schema.get("required", ())) == [_EXPRESSION]


def _plan(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the tools in the order of their calls, and the tools that each of them depends on."""
    names = list(dict.fromkeys(tool.name for tool in tools))
    awareness = read_awareness(messages)
    if awareness is None:
        return names, {}
    order = [name for name in dict.fromkeys(awareness.order) if name in names]
    upstream: dict[str, list[str]] = {}
    for source, target in awareness.edges:
        if source in names and target in names:
            upstream.setdefault(target, []).append(source)
    return [*order, *(name for name in names if name not in order)], upstream


def _results(messages: Sequence[ChatMessage]) -> _Results:
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}
    failures: dict[str, str] = {}
    for message in messages:
        calls |= {call.id: call.name for call in message.tool_calls}
        name = calls.get(message.tool_call_id or "", "") if message.role == "tool" else ""
        if name:
            (failures if has_failed(message) else answers)[name] = message.content
    return _Results(answers, failures)


def _final_answer(plan: Sequence[str], results: _Results, skipped: Mapping[str, Sequence[str]]) -> str:
    parts = [NOTICE]
    for name in plan:
        if name in results.answers:
            parts.append(f"## {name}\n\n{results.answers[name].removeprefix(NOTICE).strip()}")
    lines = [f"- {name} gave no answer: {results.failures[name]}" for name in plan if name in results.failures]
    lines += [f"- {name} was not asked, because it builds on {' and '.join(skipped[name])}." for name in skipped]
    if lines:
        parts.append("## Missing\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
