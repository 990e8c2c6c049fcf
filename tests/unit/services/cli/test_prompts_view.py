"""What a model was sent, with tools and their calls, in lines."""

from __future__ import annotations

import json
from typing import Any

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_mesh.core.awareness import awareness_message
from archon_services.cli.render.prompts_view import record_lines

AWARENESS = awareness_message([("cook", "waiter")], ["cook", "waiter"])


def call(number: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def text_of(request: dict[str, Any]) -> str:
    record = RunRecord(role="lead", kind="model", target="offline", request_json=json.dumps(request))
    return "\n".join(text for text, _ in record_lines(record))


def test_tool_calls_their_answers_and_the_tools_on_offer_can_be_read() -> None:
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
        "--- 5 tool, answers cook (c1) ---\nSoup.\n"
        "--- 6 tool, answers waiter (c2) ---\nError INVALID_ARGUMENT (INVALID_ARGUMENT): no\n"
        "--- tools on offer: cook, waiter ---\n"
        '--- besides: {"max_tokens": 9} ---\n'
    )


def test_text_beside_a_call_and_arguments_of_other_kinds_are_shown() -> None:
    calls = [call("c1", "add", '{"a": 1, "b": [2]}'), call("c2", "stop", "{}")]
    text = text_of({"messages": [{"role": "assistant", "content": "I add.", "tool_calls": calls}]})
    assert "I add.\ncalls add (c1)\n    a: 1\n    b: [2]\ncalls stop (c2)\n    no arguments" in text


def test_what_is_no_request_of_ours_is_shown_as_it_is() -> None:
    assert '--- besides: {"request": [1]} ---' in "\n".join(
        text for text, _ in record_lines(RunRecord(role="other", request_json="[1]"))
    )
    assert "=== other" in next(record_lines(RunRecord(role="other")))[0]
