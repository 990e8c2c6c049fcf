"""One call of a model, in lines: who asked, each message as it was sent, and what was on offer. Knows no terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_services.cli.render.output import duration
from archon_services.cli.render.summary import tokens

Line = tuple[str, str]
"""A text, and its style."""


def record_lines(record: RunRecord) -> Iterator[Line]:
    """The contents of messages are to the letter; tool calls are taken apart so that they can be read."""
    request = json.loads(record.request_json or "null")
    others = dict(request) if isinstance(request, dict) else {"request": request}
    messages, offered = others.pop("messages", None) or [], others.pop("tools", None) or []
    others.pop("model", None)
    usage = record.usage
    head = (
        f"{record.role}, attempt {record.task.attempt}: model {record.target}, "
        f"{duration(record.duration.ToNanoseconds() / 1e9)}, "
        f"{tokens(usage.input_tokens, usage)} tokens in, {tokens(usage.output_tokens, usage)} out"
    )
    yield f"=== {head} ===", "bold cyan"
    called: dict[str, str] = {}
    for number, message in enumerate(messages, start=1):
        yield f"--- {number} {_who(message, called)} ---", "bold"
        calls = message.get("tool_calls") or []
        if message.get("content") or not calls:
            yield str(message.get("content") or ""), ""
        for call in calls:
            function = call.get("function") or {}
            called[str(call.get("id", ""))] = str(function.get("name", ""))
            yield f"calls {function.get('name', '')} ({call.get('id', '')})", "cyan"
            yield _arguments(str(function.get("arguments", ""))), ""
    if offered:
        names = [str((tool.get("function") or {}).get("name", "")) for tool in offered]
        yield f"--- tools on offer: {', '.join(names)} ---", "dim"
    if others:
        yield f"--- besides: {json.dumps(others, ensure_ascii=False)} ---", "dim"
    yield "", ""


def _who(message: Mapping[str, Any], called: Mapping[str, str]) -> str:
    role, answers = str(message.get("role", "")), str(message.get("tool_call_id") or "")
    if not answers:
        return role
    return f"{role}, answers {called.get(answers, 'no call above')} ({answers})"


def _arguments(written: str) -> str:
    """A line per argument, indented; as they were written where they are no JSON object."""
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return f"    {written}"
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"    {name}: " + text.replace("\n", "\n      "))
    return "\n".join(lines) or "    no arguments"
