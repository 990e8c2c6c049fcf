"""The report of a model call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archon.api.orchestrator.v1.run_pb2 import RunRecord
from archon_mesh.core.awareness import awareness_message
from archon_services.cli.render.prompt_report import record_document, record_lines, recorded_text
from archon_services.cli.render.prompt_sections import read_prompt

AWARENESS = awareness_message([("cook", "waiter")], ["cook", "waiter"])


def call(number: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def report(record: RunRecord, window: int = 0, *, with_text: bool = True) -> str:
    return "\n".join(text for text, _ in record_lines(record, read_prompt(record, window), 1, with_text=with_text))


def text_of(request: dict[str, Any], window: int = 0, *, with_text: bool = True) -> str:
    record = RunRecord(role="lead", kind="model", target="offline", request_json=json.dumps(request))
    return report(record, window, with_text=with_text)


def request() -> dict[str, Any]:
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
    kinds = ["system_prompt", "awareness", "input", "step"]
    results = [{"kind": "tool_result", "tool": name} for name in ("cook", "waiter")]
    origins = [*({"kind": kind} for kind in kinds), *results]
    return {"model": "offline", "messages": messages, "origins": origins, "tools": tools, "max_tokens": 9}


def test_report_has_sections_messages_tool_calls_and_tools() -> None:
    head, _, rest = text_of(request(), 1_000).partition("\n")
    assert head.startswith("=== lead, call 1, attempt 0: model offline, ")
    assert rest == (
        "  own system prompt          ~3 tokens    0.3%\n"
        "  awareness of other roles  ~61 tokens    6.1%\n"
        "  input of the task          ~2 tokens    0.2%\n"
        "  earlier step of this run  ~13 tokens    1.3%\n"
        "  tool result               ~14 tokens    1.4%  2 messages\n"
        "  definitions of tools       ~5 tokens    0.5%  2 tools\n"
        "  all                       ~98 tokens    9.8%  of a context window of 1,000\n"
        "--- 1 system: own system prompt, ~3 tokens ---\nYou lead.\n"
        f"--- 2 system: awareness of other roles, ~61 tokens ---\n{AWARENESS}\n"
        "--- 3 user: input of the task, ~2 tokens ---\nLunch!\n"
        "--- 4 assistant: earlier step of this run, ~13 tokens ---\n"
        "calls cook (c1)\n    task: Cook soup.\n      With salt.\n"
        'calls waiter (c2)\n    {"ta\n'
        "--- 5 tool: result of cook (c1), ~2 tokens ---\nSoup.\n"
        "--- 6 tool: result of waiter (c2), ~12 tokens ---\nError INVALID_ARGUMENT (INVALID_ARGUMENT): no\n"
        "--- available tools: cook, waiter ---\n"
        '--- other parameters: {"max_tokens": 9} ---\n'
    )


def test_report_without_text_has_no_content() -> None:
    text = text_of(request(), with_text=False)
    assert "own system prompt" in text and "--- available tools: cook, waiter ---" in text
    assert "You lead." not in text and "Cook soup." not in text
    assert "The context window of this model is unknown; --window sets it." in text


def test_report_has_text_beside_calls_and_any_arguments() -> None:
    calls = [call("c1", "add", '{"a": 1, "b": [2]}'), call("c2", "stop", "{}")]
    text = text_of({"messages": [{"role": "assistant", "content": "I add.", "tool_calls": calls}]})
    assert "I add.\ncalls add (c1)\n    a: 1\n    b: [2]\ncalls stop (c2)\n    no arguments" in text


def test_redacted_contents_are_lengths_and_hashes() -> None:
    removed = {"redacted": {"chars": 1234, "tokens": 309, "hash": "ab12"}}
    tool = {"type": "function", "function": {"name": "add", **removed}}
    messages = [{"role": "assistant", "content": removed, "tool_calls": [call("c1", "add", removed)]}]
    text = text_of({"messages": messages, "origins": [{"kind": "step"}], "tools": [tool]})
    assert "--- 1 assistant: earlier step of this run, ~619 tokens ---" in text
    assert text.count("[redacted: 1,234 characters, hash ab12]") == 2
    assert "definitions of tools      ~310 tokens  1 tool" in text


@pytest.mark.parametrize("recorded", ["[1]", '{"archon.dev/left-out": "9 bytes"}', '{"messages": ["x"]}', ""])
def test_unknown_request_format_is_printed_unchanged(recorded: str) -> None:
    text = report(RunRecord(role="other", request_json=recorded))
    assert text.startswith("=== other")
    assert recorded in ("", '{"messages": ["x"]}') or recorded in text


def test_document_has_the_record_and_its_analysis() -> None:
    record = RunRecord(role="lead", kind="model", target="offline", request_json=json.dumps(request()))
    document = record_document(record, read_prompt(record, 1_000), 2)
    assert document["request"] == request()
    assert (document["context_window"], document["call"]) == (1_000, 2)
    assert document["messages"][1] == {
        "number": 2,
        "role": "system",
        "origin": "awareness",
        "label": "awareness of other roles",
        "estimated_tokens": 61,
    }
    assert document["sections"][0] == {"label": "own system prompt", "count": 1, "tokens": 3, "share": 0.003}
    assert document["warnings"] == []


@pytest.mark.parametrize(
    ("recorded", "made", "role", "text"),
    [
        (3, 3, "", ""),
        (1, 3, "cook", ""),
        (0, 0, "", "No model calls were made in this run."),
        (0, 1, "", "No model calls are recorded of the 1 model call of this run."),
        (0, 3, "cook", "No model calls by cook are recorded of the 3 model calls of this run."),
        (2, 3, "", "2 of the 3 model calls of this run are recorded."),
    ],
)
def test_missing_records_are_counted(recorded: int, made: int, role: str, text: str) -> None:
    assert recorded_text(recorded, made, role).partition(" Agents with")[0] == text
