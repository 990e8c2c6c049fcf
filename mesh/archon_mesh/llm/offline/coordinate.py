"""The offline model as a coordinator: calls its tools in the recommended order, and combines their answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archon_mesh.core.arithmetic import expression_in
from archon_mesh.core.awareness import Awareness, read_awareness
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.core.tool_messages import has_failed
from archon_mesh.llm.base import ToolSpec
from archon_mesh.llm.offline.reply import NOTICE

_Texts = Mapping[str, str]


def next_step(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Returns the text and the calls of the next reply: one call while a tool is left to call, then the final answer;
    None if the query has no arithmetic and the only tools are for that.

    Each tool is called once per query, with the query as its text arguments, in the order that the awareness message
    recommends, or else in the order of the tools; tools that the recommendation does not name come last. A tool that
    failed is not called again, and tools that depend on it are not called; nor are tools that need more than texts.
    """
    start = max((index + 1 for index, message in enumerate(messages) if message.role == "user"), default=0)
    query = messages[start - 1].content if start else ""
    arguments = {tool.name: values for tool in tools if (values := _arguments(tool, query)) is not None}
    if not arguments and all(map(_calculates, tools)):
        return None
    awareness = read_awareness(messages) or Awareness((), ())
    order = [name for name in dict.fromkeys((*awareness.order, *arguments)) if name in arguments]
    answers, failures = _results(messages[start:])
    skipped: dict[str, list[str]] = {}
    for name in order:
        if name in answers or name in failures:
            continue
        sources = [source for source, target in awareness.edges if target == name]
        if missing := [source for source in sources if source in failures or source in skipped]:
            skipped[name] = missing
            continue
        call_count = sum(len(message.tool_calls) for message in messages)
        arguments_json = json.dumps(arguments[name], ensure_ascii=False)
        return "", (ToolCall(f"call_{call_count + 1}", name, arguments_json),)
    return _final_answer(order, answers, failures, skipped), ()


def text_arguments(schema: Mapping[str, Any], text: str) -> dict[str, str] | None:
    """Returns the text for each required argument of a tool, or None if one of them is not a text."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
    required: Sequence[str] = schema.get("required") or ()
    is_text = all(properties.get(name, {}).get("type", "string") == "string" for name in required)
    return dict.fromkeys(required, text) if is_text else None


def _arguments(tool: ToolSpec, query: str) -> dict[str, str] | None:
    if "properties" not in tool.parameters_schema:
        return {"task": query}
    if _calculates(tool):
        query = expression_in(query)
        if not query:
            return None
    return text_arguments(tool.parameters_schema, query)


def _calculates(tool: ToolSpec) -> bool:
    """Whether the tool takes nothing but an arithmetic expression."""
    return list(tool.parameters_schema.get("required", ())) == ["expression"]


def _results(messages: Iterable[ChatMessage]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the answers and the failures of the calls so far, by tool."""
    calls: dict[str, str] = {}
    answers: dict[str, str] = {}
    failures: dict[str, str] = {}
    for message in messages:
        calls |= {call.id: call.name for call in message.tool_calls}
        if message.role == "tool" and (name := calls.get(message.tool_call_id or "")):
            (failures if has_failed(message) else answers)[name] = message.content
    return answers, failures


def _final_answer(order: Iterable[str], answers: _Texts, failures: _Texts, skipped: Mapping[str, list[str]]) -> str:
    parts = [f"## {name}\n\n{answers[name].removeprefix(NOTICE).strip()}" for name in order if name in answers]
    lines = [f"- {name} gave no answer: {failure}" for name, failure in failures.items()]
    lines += [f"- {name} was not asked, because it builds on {' and '.join(skipped[name])}." for name in skipped]
    if lines:
        parts.append("## Missing\n\n" + "\n".join(lines))
    return "\n\n".join([NOTICE, *parts])
