"""The offline model as a coordinator: it calls its tools in the recommended order, and puts their answers together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archon_mesh.core.awareness import read_awareness
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import has_failed
from archon_mesh.llm.base import ToolSpec
from archon_mesh.llm.offline_tasks import NOTICE


@dataclass(frozen=True, slots=True)
class _Standing:
    """What has come of the calls so far, by tool."""

    answers: Mapping[str, str]
    failures: Mapping[str, str]


def next_step(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]]:
    """The text and the calls of the next reply: one call while there is a tool to call, then the whole answer.

    Each tool is called once for a query, with the query whole where it takes a text, in the order that the awareness
    message recommends, else in that of the tools; those that the order doesn't name come last. A tool that failed isn't
    called again, and those that depend on it aren't called; nor is one that wants more than a text.
    """
    asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
    query = messages[asked].content if asked >= 0 else ""
    given = {tool.name: said for tool in tools if (said := _arguments(tool, query)) is not None}
    standing = _standing(messages[asked + 1 :])
    plan, upstream = _plan(messages, [tool for tool in tools if tool.name in given])
    missing: dict[str, list[str]] = {}
    for name in plan:
        if name in standing.answers or name in standing.failures:
            continue
        lacks = [up for up in upstream.get(name, ()) if up in standing.failures or up in missing]
        if lacks:
            missing[name] = lacks
            continue
        made = sum(len(message.tool_calls) for message in messages)
        return "", (ToolCall(f"call_{made + 1}", name, json.dumps(given[name], ensure_ascii=False)),)
    return _whole(plan, standing, missing), ()


def _arguments(tool: ToolSpec, query: str) -> dict[str, str] | None:
    """What it can be called with by whoever has nothing but a text; None: it wants something else."""
    properties: Mapping[str, Mapping[str, object]] = tool.parameters_schema.get("properties", {})
    required = tool.parameters_schema.get("required", ()) if "properties" in tool.parameters_schema else ("task",)
    if any(properties.get(name, {}).get("type", "string") != "string" for name in required):
        return None
    return dict.fromkeys(required, query)


def _plan(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[list[str], dict[str, list[str]]]:
    """The tools in the order they are to be called, and what of them each one depends on."""
    names = list(dict.fromkeys(tool.name for tool in tools))
    awareness = read_awareness(messages)
    if awareness is None:
        return names, {}
    order = [name for name in dict.fromkeys(awareness.order) if name in names]
    upstream: dict[str, list[str]] = {}
    for above, below in awareness.edges:
        if above in names and below in names:
            upstream.setdefault(below, []).append(above)
    return [*order, *(name for name in names if name not in order)], upstream


def _standing(messages: Sequence[ChatMessage]) -> _Standing:
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}
    failures: dict[str, str] = {}
    for message in messages:
        calls |= {call.id: call.name for call in message.tool_calls}
        name = calls.get(message.tool_call_id or "", "") if message.role == "tool" else ""
        if name:
            (failures if has_failed(message) else answers)[name] = message.content
    return _Standing(answers, failures)


def _whole(plan: Sequence[str], standing: _Standing, missing: Mapping[str, Sequence[str]]) -> str:
    parts = [NOTICE]
    for name in plan:
        if name in standing.answers:
            parts.append(f"## {name}\n\n{standing.answers[name].removeprefix(NOTICE).strip()}")
    lines = [f"- {name} gave no answer: {standing.failures[name]}" for name in plan if name in standing.failures]
    lines += [f"- {name} was not asked, because it builds on {' and '.join(missing[name])}." for name in missing]
    if lines:
        parts.append("## Missing\n\n" + "\n".join(lines))
    return "\n\n".join(parts)
