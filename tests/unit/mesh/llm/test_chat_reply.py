"""One reply of the chat completions API is the same reply in all forms in which servers send it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import ArchonError, InvalidArgument, ResourceExhausted, Unavailable, UnknownFailure
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.chat_reply import ChatReply
from archon_mesh.llm.tool_names import ToolNames

REQUEST = ModelRequest([ChatMessage("user", "go")])


def read(*data: Any, ended: bool = True) -> tuple[ModelReply, list[ModelChunk]]:
    reply = ChatReply(ToolNames(["add", "sub"]))
    chunks = [chunk for each in data for chunk in reply.add(each)] + list(reply.rest())
    return reply.finish(REQUEST, "m", is_ended=ended), chunks


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(**more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, **more}


def with_calls(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(chunk({"tool_calls": [part]}) for part in parts), chunk({}, "tool_calls")]


def called(*data: Any) -> list[tuple[str, Any]]:
    return [(each.name, json.loads(each.arguments_json or "{}")) for each in read(*data)[0].tool_calls]


OTHER = {"name": "add", "arguments": '{"a": 2}'}


@pytest.mark.parametrize(
    "parts",
    [
        [call(index=0), call(index=1, id="c2", function=OTHER)],
        [call(), call(id="c2", function=OTHER)],
        [call(index=None), call(index=None, id="c2", function=OTHER)],
        [call(index=0), call(index=0, id="c2", function=OTHER)],
        [call(index=0), call(index=1, function=OTHER)],
        [call(index=0, id=None), call(index=0, id=None, function=OTHER)],
        [call(id=""), call(id="", function=OTHER)],
        [call(index=0, id=7), call(index=1, id=8, function=OTHER)],
        [call(index=0, function={"name": "add", "arguments": {"a": 1}}), call(index=1, id="c2", function=OTHER)],
        [
            call(index=0, function={"name": "add", "arguments": ""}),
            {"index": 0, "function": {"arguments": '{"a"'}},
            {"index": 0, "id": "", "function": {"name": "", "arguments": ": 1}"}},
            call(index=1, id="c2", function={"name": "add", "arguments": None}),
            {"index": 1, "id": "another", "function": {"arguments": '{"a": 2}'}},
        ],
        [
            call(function={"name": "add", "arguments": '{"a"'}),
            call(function={"name": "add", "arguments": ": 1}"}),
            call(id="c2", function={"name": "add", "arguments": '{"a": '}),
            call(id="c2", function={"name": None, "arguments": "2}"}),
        ],
        [call(index=0), call(index=0), call(index=1, id="c2", function=OTHER)],
        [{"id": "c1", "name": "add", "arguments": '{"a": 1}'}, {"id": "c2", "name": "add", "arguments": {"a": 2}}],
    ],
    ids=[
        "OpenAI", "no index", "index null", "index 0 for all", "one id for all", "no ids, one index", "no ids at all",
        "numeric ids", "arguments as an object", "in pieces, other ids later", "name and id in each piece",
        "repeated at the end", "without function",
    ],
)  # fmt: skip
def test_two_calls_are_two_calls_in_each_form(parts: list[dict[str, Any]]) -> None:
    assert called(*with_calls(*parts)) == [("add", {"a": 1}), ("add", {"a": 2})]
    reply, _ = read(*with_calls(*parts))
    assert len({each.id for each in reply.tool_calls}) == 2
    assert all(each.id for each in reply.tool_calls)


def test_calls_of_other_tools_without_arguments_are_calls_of_their_own() -> None:
    parts = [{"function": {"name": name, "arguments": "{}"}} for name in ("add", "sub")]
    assert called(*with_calls(*parts)) == [("add", {}), ("sub", {})]


def test_the_older_form_of_a_call_is_read() -> None:
    assert called(
        chunk({"function_call": {"name": "add", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ": 1}"}}),
        chunk({}, "function_call"),
    ) == [("add", {"a": 1})]


@pytest.mark.parametrize(
    "data",
    [
        [chunk({"content": "Good "}), chunk({"content": "day"}), chunk({}, "stop")],
        [chunk({"content": "Good "}), {"choices": [{"index": 0}]}, chunk({"content": "day"}, "stop")],
        [chunk({"content": "Good "}), chunk(None), chunk({"content": "day"}), {"choices": []}, {"choices": None}],
        [chunk({"content": "Good day"}, "")],
        [{"choices": [{"message": {"content": "Good day"}}]}],
        [{"choices": [{"message": {"content": "Good "}}]}, {"choices": [{"message": {"content": "day"}}]}],
        [chunk({"content": [{"type": "text", "text": "Good "}, {"type": "text", "text": "day"}]}, "stop")],
        [chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
         chunk({"content": [{"type": "text", "text": "Good day"}]}, "stop")],
        [chunk({"content": "<thi"}), chunk({"content": "nk>hm</think>\n\nGood day"}, "stop")],
        [chunk({"content": "hm</think>\nGood day"}, "stop")],
        [chunk({"reasoning_content": "hm", "content": None}), chunk({"content": "Good day"}, "stop")],
    ],
    ids=[
        "OpenAI", "without delta", "delta null", "finish reason empty", "whole", "message in a stream", "parts",
        "thinking in parts", "thinking in tags", "opening tag in the prompt", "thinking in a field",
    ],
)  # fmt: skip
def test_a_text_is_the_same_text_in_each_form(data: list[Any]) -> None:
    reply, _ = read(*data)
    assert (reply.text, reply.tool_calls, reply.finish_reason) == ("Good day", (), "stop")


@given(st.text(st.sampled_from("aä€\U0001f600 \n<>{}\"'\\"), max_size=30), st.data())
def test_a_text_is_the_same_however_it_is_cut(text: str, data: st.DataObject) -> None:
    units = json.loads('"' + "".join(f"\\u{unit:04x}" for unit in _utf16(text)) + '"') if text else ""
    halves = [chr(unit) for unit in _utf16(text)]  # JSON may cut a character between its surrogates
    cuts = sorted(data.draw(st.sets(st.integers(0, len(halves)))))
    pieces = ["".join(halves[start:end]) for start, end in zip([0, *cuts], [*cuts, len(halves)], strict=True)]
    reply, chunks = read(*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"))
    assert reply.text == units == text
    assert "".join(each.text_delta for each in chunks) == text


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2)]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        ({"error": {"message": "slow down", "code": 429}}, ResourceExhausted, "slow down"),
        ([{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}], ResourceExhausted, "quota"),
        ({"error": "out of memory"}, Unavailable, "out of memory"),
        ({"error": {"message": "bad", "type": "invalid_request_error"}}, InvalidArgument, "bad"),
        ({"error": {"message": "lost"}, "choices": [{"finish_reason": "error", "delta": {}}]}, Unavailable, "lost"),
        ({"choices": [{"finish_reason": "error", "delta": {}}]}, Unavailable, "error"),
        ({"object": "list"}, UnknownFailure, "no"),
        ("text", UnknownFailure, "not a chat completion"),
        (None, UnknownFailure, "not a chat completion"),
        ({"choices": "none"}, UnknownFailure, "not a chat completion"),
        ({"choices": ["x"]}, UnknownFailure, "not a chat completion"),
    ],
)
def test_what_is_no_reply_is_an_error_with_the_servers_words(data: Any, error: type[ArchonError], words: str) -> None:
    with pytest.raises(error, match=words):
        read(data)


def test_a_stream_that_breaks_off_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="before the reply was complete"):
        read(chunk({"content": "half"}), ended=False)
    assert read(chunk({"content": "whole"}, "stop"), ended=False)[0].text == "whole"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["choices", "delta", "message", "content", "tool_calls", "function", "name", "arguments", "id", "index", "usage",
         "error", "finish_reason", "text", "type", "thinking", "reasoning", "function_call", "model", "x_groq"]
    ), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(JSON, max_size=4))
def test_any_json_is_a_reply_or_an_error_of_archon(data: list[Any]) -> None:
    try:
        reply, chunks = read(*data)
    except ArchonError:
        return
    assert isinstance(reply.text, str)
    for each in chunks:
        (each.text_delta + each.thinking_delta).encode()


@pytest.mark.parametrize(
    ("more", "read_", "written", "cached"),
    [
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}},
            7,
            3,
            5,
        ),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}}, 7, 3, 4),
        ({"x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}}, 7, 3, 0),
        ({"usage": {"prompt_tokens": "7", "completion_tokens": None, "prompt_tokens_details": None}}, 0, 0, 0),
    ],
)
def test_usage_is_read_where_servers_have_it(more: dict[str, Any], read_: int, written: int, cached: int) -> None:
    usage = read(chunk({"content": "x"}, "stop", **more))[0].usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (read_, written, cached)
