"""The report of `archon prompts`: one model call with its messages, as sent, and its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon.wire import to_seconds
from archon_services.cli.render.output import cost_text, duration
from archon_services.cli.render.run_summary import token_count

Line = tuple[str, str]
"""A text, and its style."""


def record_lines(record: RunRecord) -> Iterator[Line]:
    """Yields the contents of messages unchanged, and tool calls with one argument per line."""
    request = json.loads(record.request_json or "null")
    parameters = dict(request) if isinstance(request, dict) else {"request": request}
    messages, tools = parameters.pop("messages", None) or [], parameters.pop("tools", None) or []
    parameters.pop("model", None)
    usage = record.usage
    head = (
        f"{record.role}, attempt {record.task.attempt}: model {record.target}, "
        f"{duration(to_seconds(record.duration))}, "
        f"{token_count(usage.input_tokens, usage)} tokens in, {token_count(usage.output_tokens, usage)} out"
        f"{', ' if usage.cost_micro_usd else ''}{cost_text(usage.cost_micro_usd)}"
    )
    yield f"=== {head} ===", "bold cyan"
    names: dict[str, str] = {}
    for number, message in enumerate(messages, start=1):
        yield f"--- {number} {_sender(message, names)} ---", "bold"
        calls = message.get("tool_calls") or []
        if message.get("content") or not calls:
            yield str(message.get("content") or ""), ""
        for call in calls:
            function = call.get("function") or {}
            names[str(call.get("id", ""))] = str(function.get("name", ""))
            yield f"calls {function.get('name', '')} ({call.get('id', '')})", "cyan"
            yield _arguments(str(function.get("arguments", ""))), ""
    if tools:
        offered = [str((tool.get("function") or {}).get("name", "")) for tool in tools]
        yield f"--- available tools: {', '.join(offered)} ---", "dim"
    if parameters:
        yield f"--- other parameters: {json.dumps(parameters, ensure_ascii=False)} ---", "dim"
    yield "", ""


def _sender(message: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Returns the role of a message; for the result of a tool also the name and the id of the call."""
    role, call_id = str(message.get("role", "")), str(message.get("tool_call_id") or "")
    if not call_id:
        return role
    return f"{role}, result of {names.get(call_id, 'an unknown call')} ({call_id})"


def _arguments(arguments_json: str) -> str:
    """Formats one argument per line, indented; unchanged if they are not a JSON object."""
    try:
        arguments = json.loads(arguments_json)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return f"    {arguments_json}"
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"    {name}: " + text.replace("\n", "\n      "))
    return "\n".join(lines) or "    no arguments"
