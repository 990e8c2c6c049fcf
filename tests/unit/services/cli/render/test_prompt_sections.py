"""The analysis of a recorded prompt: origins, tokens and warnings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.llm.base import IMAGE_TOKENS
from archon_services.cli.render import prompt_sections
from archon_services.cli.render.prompt_sections import Expected, Prompt, expectations, labels_of, read_prompt

LONG = "The parcel must arrive before noon, and the customer must be called when it does. " * 3
Sent = tuple[str, dict[str, Any], Any]
"""Role, origin and content of a message."""

INPUT: Sent = ("user", {"kind": "input"}, "Go.")


def prompt_of(
    *sent: Sent, window: int = 0, expected: Expected | None = None, usage: common_pb2.Usage | None = None
) -> Prompt:
    request = {
        "messages": [{"role": role, "content": content} for role, _, content in sent],
        "origins": [origin for _, origin, _ in sent],
    }
    return read_prompt(run_pb2.RunRecord(request_json=json.dumps(request), usage=usage), window, expected)


def context(role: str, text: Any, version: int = 3) -> Sent:
    content = f"Shared context from {role}:\n{text}" if isinstance(text, str) else text
    return "system", {"kind": "shared_context", "role": role, "version": version}, content


def redacted(fingerprint: str) -> dict[str, Any]:
    return {"redacted": {"chars": 400, "tokens": 100, "hash": fingerprint}}


def warnings(*sent: Sent, **more: Any) -> Sequence[str]:
    return prompt_of(*sent, **more).warnings


@pytest.mark.parametrize(
    ("origin", "label"),
    [
        ({"kind": "system_prompt"}, "own system prompt"),
        ({"kind": "awareness"}, "awareness of other roles"),
        ({"kind": "shared_context", "role": "cook", "version": 3}, "shared context v3 of cook"),
        ({"kind": "session_history"}, "session history"),
        ({"kind": "summary"}, "summary of earlier messages"),
        ({"kind": "memory"}, "retrieved memory"),
        ({"kind": "input"}, "input of the task"),
        ({"kind": "step"}, "earlier step of this run"),
        ({"kind": "note"}, "note of the agent loop"),
        ({"kind": "hook"}, "added by a hook"),
        ({"kind": "of a later version"}, "of a later version"),
        ("broken", "origin not recorded"),
    ],
)
def test_each_origin_has_a_label(origin: Any, label: str) -> None:
    assert [message.label for message in prompt_of(("user", origin, "x")).messages] == [label]


def test_record_without_origins_is_told_by_its_metadata() -> None:
    shared = {"shared_memory": True, "shared_memory_source": "cook", "shared_memory_version": 2}
    messages = [
        {"role": "system", "content": "x"},
        {"role": "system", "content": "x", "metadata": shared},
        {"role": "system", "content": "x", "metadata": {"orchestrator_awareness": True}},
        {"role": "tool", "content": "x", "tool_call_id": "c1"},
    ]
    prompt = read_prompt(run_pb2.RunRecord(request_json=json.dumps({"messages": messages})), 0)
    assert [message.label for message in prompt.messages] == [
        "origin not recorded",
        "shared context v2 of cook",
        "awareness of other roles",
        "result of an unknown call (c1)",
    ]
    assert prompt.warnings == []


def test_tokens_are_the_providers_count_if_there_is_one() -> None:
    counted = prompt_of(INPUT, usage=common_pb2.Usage(input_tokens=50), window=100)
    estimated = prompt_of(INPUT, window=100)
    assert (counted.tokens, counted.estimated, estimated.tokens, estimated.estimated) == (50, False, 1, True)
    assert counted.sections[0].share == 0.01


def test_dependency_whose_context_is_missing_is_a_warning() -> None:
    expected = Expected(("cook", "baker", "host"), frozenset({"baker"}), roles=frozenset({"cook"}))
    assert warnings(INPUT, expected=expected) == [
        "missing: the shared context of cook, which this role depends on and was not given (it had no answer yet)",
        "missing: the shared context of host, which this role depends on and was not given (the run has no task for it)",
        "missing: the shared context of baker, which was delivered with the attempt",
    ]
    complete = [context(role, role) for role in ("cook", "baker", "host")]
    assert warnings(INPUT, *complete, expected=expected) == []


def test_delivered_context_that_is_not_in_the_prompt_is_a_warning() -> None:
    assert warnings(INPUT, expected=Expected((), frozenset({"cook"}))) == [
        "missing: the shared context of cook, which was delivered with the attempt"
    ]


def test_missing_input_is_a_warning() -> None:
    assert warnings(("system", {"kind": "system_prompt"}, "You cook.")) == ["missing: the input of the task"]


def test_same_text_twice_is_a_warning_whatever_its_spaces() -> None:
    twice = warnings(INPUT, context("cook", LONG), ("system", {"kind": "memory"}, LONG.replace(" ", "\n")))
    assert twice == [
        "duplicate: the text of message 2 (shared context v3 of cook) is there again as message 3 (retrieved memory)"
    ]
    assert warnings(INPUT, context("cook", "Soup."), ("system", {"kind": "memory"}, "Soup.")) == []


def test_messages_beyond_the_limit_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_sections, "MAX_COMPARED", 2)
    assert warnings(INPUT, context("cook", LONG), ("system", {"kind": "memory"}, LONG)) == []


def test_text_inside_another_one_is_a_warning() -> None:
    assert warnings(("user", {"kind": "input"}, f"Read this: {LONG}"), context("cook", LONG)) == [
        "duplicate: the text of message 2 (shared context v3 of cook) is a part of message 1 (input of the task)"
    ]


def test_redacted_texts_are_compared_by_their_hashes() -> None:
    memory: Sent = ("system", {"kind": "memory"}, redacted("aa"))
    (warning,) = warnings(INPUT, context("cook", redacted("aa")), memory, context("baker", redacted("bb")))
    assert warning.startswith("duplicate: the text of message 2")
    assert [message.tokens for message in prompt_of(memory).messages] == [100]


@pytest.mark.parametrize(("tokens", "count"), [(79, 0), (80, 1), (120, 1)])
def test_prompt_near_the_window_is_a_warning(tokens: int, count: int) -> None:
    near = warnings(INPUT, window=100, usage=common_pb2.Usage(input_tokens=tokens))
    assert len(near) == count
    assert all(f"{tokens} of 100 tokens of the context window" in warning for warning in near)


def test_expectations_are_edges_and_delivered_context_by_attempt() -> None:
    run = run_pb2.Run()
    run.edges.add(upstream="cook", downstream="waiter")
    run.edges.add(upstream="cook", downstream="baker")
    run.tasks.add(role="waiter")
    event = run_pb2.RunEvent(dispatched=run_pb2.Dispatched(role="waiter", given=[common_pb2.MemoryRef(role="host")]))
    event.task.task_id, event.task.attempt = "t1", 2
    assert expectations(run, [event]) == {
        ("t1", 2): Expected(
            ("cook",), frozenset({"host"}), (("cook", "waiter"), ("cook", "baker")), frozenset({"waiter"})
        )
    }


def test_missing_awareness_of_callable_roles_is_a_warning() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("cook", "waiter")]
    request: dict[str, list[Any]] = {
        "messages": [{"role": "user", "content": "Go."}],
        "origins": [{"kind": "input"}],
        "tools": tools,
    }
    record = run_pb2.RunRecord(request_json=json.dumps(request))
    expected = Expected(edges=(("cook", "waiter"), ("cook", "baker")))
    assert read_prompt(record, 0, expected).warnings == [
        "missing: the awareness that waiter depends on cook; the model can call both"
    ]
    request["messages"].append({"role": "system", "content": "You coordinate."})
    request["origins"].append({"kind": "awareness"})
    assert read_prompt(run_pb2.RunRecord(request_json=json.dumps(request)), 0, expected).warnings == []


def test_request_in_an_unknown_form_has_no_warnings() -> None:
    record = run_pb2.RunRecord(request_json='{"archon.dev/left-out": "9 bytes, too large to record"}')
    assert read_prompt(record, 0, Expected(("cook",))).warnings == []


def test_files_of_a_message_count_and_have_labels() -> None:
    image = {"media_type": "image/png", "name": "a.png", "bytes": 1_234, "hash": "00"}
    hidden = {"media_type": "application/pdf", "bytes": 100_000, "name": redacted("1"), "hash": redacted("2")}
    linked = {"media_type": "image/png", "url": "https://x.org/a.png", "hash": "00"}
    message = {"role": "user", "content": "Look", "files": [image, hidden, linked]}
    prompt = read_prompt(run_pb2.RunRecord(request_json=json.dumps({"messages": [message]})), 0, None)
    assert prompt.messages[0].tokens == 1 + IMAGE_TOKENS + 2_000 + IMAGE_TOKENS
    assert labels_of(message) == [
        "[a.png, image/png, 1,234 bytes]",
        "[application/pdf, 100,000 bytes]",
        "[image/png, https://x.org/a.png]",
    ]
    assert labels_of({"role": "user", "files": "broken"}) == []
