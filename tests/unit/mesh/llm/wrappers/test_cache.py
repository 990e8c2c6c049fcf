"""CachedModel: what is kept, and for which requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, ToolSpec, Usage
from archon_mesh.llm.wrappers import CachedModel

HELLO = ModelRequest([ChatMessage("user", "hello")], temperature=0)
CALL = ToolCall("1", "add", '{"a": 1}')


async def test_the_same_request_is_answered_from_the_cache() -> None:
    inner = ScriptedModel([CALL, "never"])
    model = CachedModel(inner)
    first = await model.generate(HELLO)
    again = replace(HELLO, timeout=7, messages=[ChatMessage("user", "hello", metadata={"a": 1})])
    chunks = [chunk async for chunk in model.stream(again)]
    assert chunks[-1].reply == replace(first, usage=Usage(0, 0))
    assert any(chunk.tool_call_delta for chunk in chunks)
    assert inner.remaining == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(HELLO, messages=[ChatMessage("user", "hello!")]),
        replace(HELLO, messages=[ChatMessage("system", "hello")]),
        replace(HELLO, tools=[ToolSpec("add", "", {})]),
        replace(HELLO, max_tokens=9),
    ],
)
async def test_another_request_is_not(other: ModelRequest) -> None:
    model = CachedModel(ScriptedModel(["a", "b"]))
    assert [(await model.generate(request)).text for request in (HELLO, other)] == ["a", "b"]


@pytest.mark.parametrize("temperature", [None, 0.7])
async def test_other_temperatures_are_kept_only_if_asked(temperature: float | None) -> None:
    request = replace(HELLO, temperature=temperature)
    for always, expected in ((False, ["a", "b"]), (True, ["a", "a"])):
        model = CachedModel(ScriptedModel(["a", "b"]), always=always)
        assert [(await model.generate(request)).text for _ in range(2)] == expected


async def test_failures_and_truncated_replies_are_not_kept() -> None:
    cut = ModelReply("half", (), Usage(1, 1), "m", "length")
    model = CachedModel(ScriptedModel([Unavailable("down"), cut, "whole", "never"]))
    with pytest.raises(Unavailable):
        await model.generate(HELLO)
    assert [(await model.generate(HELLO)).text for _ in range(3)] == ["half", "whole", "whole"]


@pytest.mark.parametrize("limits", [{"max_entries": 2}, {"max_bytes": 2_500}])
async def test_the_reply_used_longest_ago_is_dropped(limits: Any) -> None:
    model = CachedModel(ScriptedModel(["a", "b", "c", "b again"]), **limits)

    async def ask(text: str) -> str:
        return (await model.generate(replace(HELLO, messages=[ChatMessage("user", text)]))).text

    assert [await ask(text) for text in ("1", "2", "1", "3", "1", "2")] == ["a", "b", "a", "c", "a", "b again"]


async def test_a_reply_larger_than_the_cache_is_not_kept() -> None:
    model = CachedModel(ScriptedModel(["x" * 5_000, "b"]), max_bytes=4_000)
    assert [len((await model.generate(HELLO)).text) for _ in range(2)] == [5_000, 1]


@pytest.mark.parametrize("wrong", [{"max_entries": 0}, {"max_bytes": 0}])
def test_limits_out_of_range_are_rejected(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        CachedModel(ScriptedModel(), **wrong)
