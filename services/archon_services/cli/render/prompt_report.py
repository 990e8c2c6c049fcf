"""The report of `archon prompts`: a model call with its sections, its messages, as sent, and its tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon.json_text import json_object
from archon.plain_text import counted, duration
from archon.wire import to_seconds
from archon_services.cli.render.prompt_sections import (
    TOOLS,
    Prompt,
    PromptMessage,
    Section,
    labels_of,
    messages_of,
    redaction,
    request_of,
)
from archon_services.cli.render.prompt_suggestions import suggestions
from archon_services.reports.texts import cost_text, tokens_text

Line = tuple[str, str]
"""A text, and its style."""

TOTAL: Final = "all"
CACHED: Final = "  of them cached"
_NOT_PRINTED = ("messages", "origins", "tools", "model", "sent")


def record_lines(record: RunRecord, prompt: Prompt, number: int, *, with_text: bool = True) -> Iterator[Line]:
    """Yields the sections, and `with_text` the contents of messages unchanged, and tool calls with one argument per
    line."""
    request = request_of(record)
    usage = record.usage
    head = (
        f"{record.role}, call {number}, attempt {record.task.attempt}: model {record.target}, "
        f"{duration(to_seconds(record.duration))}, {tokens_text(usage, ' tokens')}"
        f"{', ' if usage.cost_micro_usd else ''}{cost_text(usage.cost_micro_usd)}"
    )
    yield f"=== {head} ===", "bold cyan"
    yield from _section_lines(prompt)
    yield from ((f"warning: {warning}", "yellow") for warning in prompt.warnings)
    yield from ((f"suggestion: {suggestion}", "cyan") for suggestion in suggestions(prompt))
    if with_text:
        for message, sent in zip(prompt.messages, messages_of(request), strict=True):
            yield from _message_lines(message, sent)
    if tools := request.get("tools"):
        offered = [str((tool.get("function") or {}).get("name", "")) for tool in tools]
        yield f"--- available tools: {', '.join(offered)} ---", "dim"
    if parameters := {key: value for key, value in request.items() if key not in _NOT_PRINTED}:
        yield f"--- other parameters: {json.dumps(parameters, ensure_ascii=False)} ---", "dim"
    yield "", ""


def recorded_text(recorded: int, made: int, role: str = "", *, ended: bool = True) -> str:
    """Says how many of the model calls that a run made are not recorded; empty if all are.

    If only the calls of `role` are shown, `made` counts the others, too."""
    if recorded and (role or recorded >= made):
        return ""
    if not ended and not recorded:
        return "No model call of this run has ended so far; a call is listed within about a second."
    if not made:
        return "No model calls were made in this run."
    count, author = counted(made, "model call"), f" by {role}" if role else ""
    first = (
        f"{recorded:,} of the {count} of this run are recorded."
        if recorded
        else f"No model calls{author} are recorded of the {count} of this run."
    )
    return (
        f"{first} Agents with ARCHON_RECORDS=off record none, and the records of an ended run are deleted after a day."
    )


def record_document(record: RunRecord, prompt: Prompt, number: int) -> dict[str, Any]:
    """Returns the JSON of a model call: the request and response as recorded, and the analysis of the prompt."""
    return {
        "run_id": record.task.run_id,
        "task_id": record.task.task_id,
        "attempt": record.task.attempt,
        "role": record.role,
        "call": number,
        "ordinal": record.ordinal,
        "model": record.target,
        "seconds": to_seconds(record.duration),
        "input_tokens": record.usage.input_tokens,
        "output_tokens": record.usage.output_tokens,
        "cached_input_tokens": record.usage.cached_input_tokens,
        "uncached_input_tokens": max(0, record.usage.input_tokens - record.usage.cached_input_tokens),
        "cache_write_tokens": record.usage.cache_write_tokens,
        "cost_micro_usd": record.usage.cost_micro_usd,
        "estimated": record.usage.estimated,
        "context_window": prompt.window or None,
        "sections": [asdict(section) for section in prompt.sections],
        "messages": [
            {"number": message.number, "role": message.role, "origin": message.origin, "label": message.label}
            | {"estimated_tokens": message.tokens}
            for message in prompt.messages
        ],
        "warnings": prompt.warnings,
        "suggestions": suggestions(prompt),
        "request": json.loads(record.request_json or "null"),
        "response": json.loads(record.response_json or "null"),
    }


def _section_lines(prompt: Prompt) -> Iterator[Line]:
    """Yields a line per section and one for all, with the part of the context window if that is known."""
    if not prompt.sections:
        return
    mark = "~" if prompt.estimated else ""
    rows = [(section.label, f"~{section.tokens:,}", section.tokens, _number(section)) for section in prompt.sections]
    window = f"of a context window of {prompt.window:,}" if prompt.window else ""
    rows.append((TOTAL, f"{mark}{prompt.tokens:,}", prompt.tokens, window))
    if prompt.cached:
        rows.append((CACHED, f"{mark}{prompt.cached:,}", prompt.cached, f"{prompt.tokens - prompt.cached:,} are not"))
    name, count = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    for label, number, tokens, note in rows:
        share = f"  {tokens / prompt.window:>6.1%}" if prompt.window else ""
        line = f"  {label:<{name}}  {number:>{count}} tokens{share}  {note}".rstrip()
        yield line, "bold" if label == TOTAL else ""
    if not prompt.window:
        yield "  The context window of this model is unknown; --window sets it.", "dim"


def _number(section: Section) -> str:
    if section.label == TOOLS:
        return counted(section.count, "tool")
    return counted(section.count, "message") if section.count > 1 else ""


def _message_lines(message: PromptMessage, sent: Mapping[str, Any]) -> Iterator[Line]:
    yield f"--- {message.number} {message.role}: {message.label}, ~{message.tokens:,} tokens ---", "bold"
    calls: Sequence[Mapping[str, Any]] = sent.get("tool_calls") or []
    labels = labels_of(sent)
    if sent.get("content") or not (calls or labels):
        yield _content(sent.get("content")), ""
    for label in labels:
        yield label, "cyan"
    for call in calls:
        function = call.get("function") or {}
        yield f"calls {function.get('name', '')} ({call.get('id', '')})", "cyan"
        yield _arguments(function.get("arguments", "")), ""


def _content(content: Any) -> str:
    removed = redaction(content)
    if removed is None:
        return str(content or "")
    return f"[redacted: {int(removed.get('chars') or 0):,} characters, hash {removed.get('hash', '')}]"


def _arguments(sent: Any) -> str:
    """Formats one argument per line, indented; unchanged if they are not a JSON object."""
    if redaction(sent) is not None:
        return f"    {_content(sent)}"
    if (arguments := json_object(str(sent))) is None:
        return f"    {sent}"
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"    {name}: " + text.replace("\n", "\n      "))
    return "\n".join(lines) or "    no arguments"
