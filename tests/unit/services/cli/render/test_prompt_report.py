"""The report of a model call."""

from __future__ import annotations

import json
from typing import Any

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_mesh.core.awareness import awareness_message
from archon_services.cli.render.prompt_report import record_lines

AWARENESS = awareness_message([("cook", "waiter")], ["cook", "waiter"])


def call(number: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def text_of(request: dict[str, Any]) -> str:
    record = RunRecord(role="lead", kind="model", target="offline", request_json=json.dumps(request))
    return "\n".join(text for text, _ in record_lines(record))


def test_report_has_messages_tool_calls_and_tools() -> None:
    tools = [{"type": "function", "function": {"name": name, "description": "d"}} for name in ("cook", "waiter")]
    calls = [call("c1", "cook", '{"task": "Cook soup.\\nWith salt."}'), call("c2", "waiter", '{"ta')]
    messages = [
        {"role": "system", "content": "You lead."},
        {"role": "system", "content": AWARENESS, "metadata": {"orchestrator_awareness": True}},
        {"role": "user", "content": "Lunch!"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "content": "Soup.", "tool_call_id": "c1"},
        {"role": "tool", "content": "Error INVALID_ARGUMENT (INVALID_ARGUMENT): no", "tool_call_id": "c2"},
    ]
    text = text_of({"model": "offline", "messages": messages, "tools": tools, "max_tokens": 9})
    head, _, rest = text.partition("\n")
    assert head.startswith("=== lead, attempt 0: model offline, ")
    assert rest == (
        "--- 1 system ---\nYou lead.\n"
        f"--- 2 system ---\n{AWARENESS}\n"
        "--- 3 user ---\nLunch!\n"
        "--- 4 assistant ---\n"
        "calls cook (c1)\n    task: Cook soup.\n      With salt.\n"
        'calls waiter (c2)\n    {"ta\n'
        "--- 5 tool, result of cook (c1) ---\nSoup.\n"
        "--- 6 tool, result of waiter (c2) ---\nError INVALID_ARGUMENT (INVALID_ARGUMENT): no\n"
        "--- available tools: cook, waiter ---\n"
        '--- other parameters: {"max_tokens": 9} ---\n'
    )


def test_report_has_text_beside_calls_and_any_arguments() -> None:
    calls = [call("c1", "add", '{"a": 1, "b": [2]}'), call("c2", "stop", "{}")]
    text = text_of({"messages": [{"role": "assistant", "content": "I add.", "tool_calls": calls}]})
    assert "I add.\ncalls add (c1)\n    a: 1\n    b: [2]\ncalls stop (c2)\n    no arguments" in text


def test_unknown_request_format_is_printed_unchanged() -> None:
    assert '--- other parameters: {"request": [1]} ---' in "\n".join(
        text for text, _ in record_lines(RunRecord(role="other", request_json="[1]"))
    )
    assert "=== other" in next(record_lines(RunRecord(role="other")))[0]
