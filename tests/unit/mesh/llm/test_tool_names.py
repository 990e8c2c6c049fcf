"""Names of tools that a provider rejects are mapped to accepted ones, and back."""

from __future__ import annotations

import re
from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelRequest, ToolSpec
from archon_mesh.llm.tool_names import ToolNames
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk, completion

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NAME = st.one_of(st.text(max_size=80), st.text(alphabet="a._-/ ", max_size=5), st.from_regex(ACCEPTED, fullmatch=True))


def test_accepted_names_stay_as_they_are() -> None:
    names = ToolNames(["add", "web-search", "x" * 64])
    assert [names.accepted(name) for name in ("add", "web-search", "x" * 64)] == ["add", "web-search", "x" * 64]


def test_rejected_characters_become_underscores() -> None:
    names = ToolNames(["math.calculator", "a b"])
    assert (names.accepted("math.calculator"), names.accepted("a b")) == ("math_calculator", "a_b")
    assert names.original("math_calculator") == "math.calculator"


def test_names_that_would_be_the_same_stay_distinct() -> None:
    names = ToolNames(["a.b", "a/b", "a_b"])
    accepted = [names.accepted(name) for name in ("a.b", "a/b", "a_b")]
    assert len(set(accepted)) == 3
    assert accepted[2] == "a_b"
    assert [names.original(name) for name in accepted] == ["a.b", "a/b", "a_b"]


def test_a_tool_that_has_the_hashed_name_of_another_stays_distinct() -> None:
    taken = "a_b_" + sha256(b"a.b#0").hexdigest()[:8]
    assert ToolNames(["a.b", "a_b"]).accepted("a.b") == taken
    assert ToolNames(["a.b", "a_b", taken]).accepted("a.b") != taken


def test_a_name_that_the_map_does_not_have_stays_as_it_is() -> None:
    assert ToolNames(["a.b"]).original("other") == "other"


@given(st.lists(NAME, max_size=12), st.randoms())
def test_any_names_are_mapped_one_to_one_in_any_order(names: list[str], random: object) -> None:
    mapped = ToolNames(names)
    assert all(ACCEPTED.fullmatch(mapped.accepted(name)) for name in names)
    assert all(mapped.original(mapped.accepted(name)) == name for name in names)
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    again = ToolNames(shuffled)
    assert [again.accepted(name) for name in names] == [mapped.accepted(name) for name in names]


REQUEST = ModelRequest(
    [
        ChatMessage("user", "2+2?"),
        ChatMessage("assistant", tool_calls=(ToolCall("c1", "old.tool", "{}"),)),
        ChatMessage("tool", "gone", tool_call_id="c1"),
    ],
    tools=[ToolSpec("math.calculator", "calculates", {"type": "object"}), ToolSpec("math_calculator", "other", {})],
    timeout=10,
)


async def test_the_openai_client_sends_accepted_names_and_returns_originals() -> None:
    from archon_mesh.llm.openai import OpenAIModel

    sent = ToolNames.of(REQUEST).accepted("math.calculator")
    wire = {"id": "c2", "type": "function", "function": {"name": sent, "arguments": "{}"}}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [wire]}}
    delta = {"tool_calls": [{"index": 0, "id": "c2", "function": {"name": sent, "arguments": "{}"}}]}
    async with OpenAIServer() as server:
        model = OpenAIModel("m", base_url=server.url)
        server.script(
            Answer(completion({}, choices=[{**choice, "finish_reason": "tool_calls"}])),
            Answer(events=[chunk(delta), chunk(finish="tool_calls")]),
        )
        reply = await model.generate(REQUEST)
        chunks = [chunk async for chunk in model.stream(REQUEST)]
        await model.close()
    calls = (ToolCall("c2", "math.calculator", "{}"),)
    assert reply.tool_calls == calls
    assert [each.tool_call_delta.name for each in chunks if each.tool_call_delta] == ["math.calculator"]
    assert chunks[-1].reply is not None
    assert chunks[-1].reply.tool_calls == calls
    for received in server.received:
        names = [tool["function"]["name"] for tool in received.body["tools"]]
        assert names == [sent, "math_calculator"]
        assert sent != "math_calculator"
        assert received.body["messages"][1]["tool_calls"][0]["function"]["name"] == "old_tool"
