"""Advice from the prompts of a run together: what keeps a provider's cache from helping, and tools without use."""

from __future__ import annotations

import json
from typing import Any

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_services.cli.render.prompt_prefix import PrefixAdvice
from archon_services.cli.render.prompt_sections import read_prompt

LONG = "The parcel must arrive before noon, and the customer must be called when it does. " * 60


def message(kind: str, content: Any, role: str = "user") -> tuple[str, dict[str, Any]]:
    return kind, {"role": role, "content": content}


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d" * 400, "parameters": {}}}


class Calls:
    """The calls of a run, and the advice for each."""

    def __init__(self) -> None:
        self.advice = PrefixAdvice()

    def add(
        self,
        *messages: tuple[str, dict[str, Any]],
        task: str = "t1",
        usage: common_pb2.Usage | None = None,
        tools: tuple[str, ...] = (),
        called: str = "",
    ) -> list[str]:
        request = {
            "messages": [each for _, each in messages],
            "origins": [{"kind": kind} for kind, _ in messages],
            "tools": [tool(name) for name in tools],
        }
        calls = [{"function": {"name": called}}] if called else []
        record = run_pb2.RunRecord(
            role="cook",
            kind="model",
            target="m",
            task=common_pb2.TaskRef(task_id=task, attempt=1),
            request_json=json.dumps(request),
            response_json=json.dumps({"text": "", "tool_calls": calls}),
            usage=usage,
        )
        prompt = read_prompt(record, 0)
        self.advice.add(record, prompt)
        return prompt.advice


def test_a_prompt_that_changes_each_time_is_named_with_its_place() -> None:
    calls = Calls()
    prompts = [message("system_prompt", f"It is 12:0{minute} now. {LONG}", "system") for minute in (1, 2)]
    assert calls.add(prompts[0], message("input", "Go.")) == []
    (line,) = calls.add(prompts[1], message("input", "Stop."), task="t2")
    assert line.startswith(
        "changes: message 1 (own system prompt) differs from the call before at character 11 ('It is 12:01"
    )
    assert "tokens from there on are not read from the cache" in line


def test_a_history_that_grows_and_other_inputs_need_no_advice() -> None:
    calls = Calls()
    prompt, first = message("system_prompt", LONG, "system"), message("input", LONG)
    note = message("note", "This is the last step.", "system")
    assert calls.add(prompt, first, note) == []
    assert calls.add(prompt, first, message("step", "look", "assistant"), message("tool_result", "x")) == []
    assert calls.add(prompt, message("input", LONG + "other"), task="t2") == []


def test_a_change_within_one_task_is_named() -> None:
    calls = Calls()
    prompt = message("system_prompt", "Be brief.", "system")
    calls.add(prompt, message("memory", "It is one. " + LONG), message("input", "Go."))
    (line,) = calls.add(prompt, message("memory", "It is two. " + LONG), message("input", "Go."))
    assert "message 2 (retrieved memory)" in line and "'It is one." in line and "'It is two." in line


def test_a_beginning_that_stays_and_is_not_cached_is_named() -> None:
    calls, usage = Calls(), common_pb2.Usage(input_tokens=2_000)
    prompt = message("system_prompt", LONG, "system")
    calls.add(prompt, message("input", "Go."), usage=usage)
    (line,) = calls.add(prompt, message("input", "Stop."), task="t2", usage=usage)
    assert line.startswith("not cached: the first 1 messages (~1,230 tokens) are as in the call before")
    cached = common_pb2.Usage(input_tokens=2_000, cached_input_tokens=1_024)
    assert calls.add(prompt, message("input", "Wait."), task="t3", usage=cached) == []
    estimated = common_pb2.Usage(input_tokens=2_000, estimated=True)
    assert calls.add(prompt, message("input", "Wait."), task="t4", usage=estimated) == [], "no provider has counted"


def test_redacted_prompts_are_compared_by_their_hashes() -> None:
    calls = Calls()
    contents = [{"redacted": {"chars": 4_000, "tokens": 1_000, "hash": text}} for text in ("aa", "bb")]
    calls.add(message("system_prompt", contents[0], "system"))
    (line,) = calls.add(message("system_prompt", contents[1], "system"), task="t2")
    assert "differs from the call before: ~1,000 tokens" in line


def test_other_tools_are_named_and_unused_ones_at_the_end() -> None:
    calls, start = Calls(), message("input", "Go.")
    calls.add(start, tools=("look", "draw"), called="look")
    (line,) = calls.add(start, tools=("draw", "look"))
    assert line.startswith("changes: the tools differ from the call before")
    (unused,) = calls.advice.rest()
    assert unused.startswith("unused: cook offers draw in 2 calls, ~")


def test_tools_of_one_call_are_not_called_unused() -> None:
    calls = Calls()
    calls.add(message("input", "Go."), tools=("look",))
    assert list(calls.advice.rest()) == []
