"""One reply is the same reply in each legal and each known odd form of its API, however its bytes are cut."""

from __future__ import annotations

import asyncio
import codecs
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import ArchonError
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelChunk, ModelReply, ModelRequest
from archon_mesh.llm.anthropic_reply import MessageReply
from archon_mesh.llm.chat_reply import ChatReply
from archon_mesh.llm.endpoint import EndpointCall
from archon_mesh.llm.reply_stream import ReplyStream
from archon_mesh.llm.responses_reply import ResponseReply
from archon_mesh.llm.tool_names import ToolNames
from tests.fixtures.response_pieces import ResponsePieces

REQUEST = ModelRequest([ChatMessage("user", "go")])
Json = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class Form:
    """A reply as a server sends it: whole, or as named events."""

    events: list[tuple[str, object]]
    has_done: bool = False
    is_whole: bool = False


@dataclass(frozen=True)
class Meant:
    """What a model replies: its thinking, its text, and calls of the tool `add` with these numbers."""

    thinking: str
    text: str
    calls: list[int]


MEANT = st.builds(
    Meant,
    st.text("abä€\U0001f600", max_size=6),
    st.one_of(st.just(""), st.from_regex(r"\A[aä€\U0001f600][a ä€\U0001f600\n]{0,10}[bz]\Z")),
    st.lists(st.integers(0, 99), max_size=3, unique=True),
)


def read(api: str, form: Form, draw: Draw) -> tuple[ModelReply, list[ModelChunk]]:
    """Sends a form as bytes that are cut anywhere, and reads it."""
    names = ToolNames(["add"])
    readers: dict[str, Any] = {"chat": ChatReply, "responses": ResponseReply, "messages": MessageReply}
    reader = readers[api](names)
    add = reader.add if api != "chat" else lambda event: reader.add(event.data)

    async def reading() -> tuple[ModelReply, list[ModelChunk]]:
        content = whole(form) if form.is_whole else stream(form, draw)
        cuts = sorted(draw(st.sets(st.integers(0, len(content)), max_size=12)))
        pieces = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
        content_type = "application/json" if form.is_whole else "text/event-stream"
        replying = ReplyStream(EndpointCall("", REQUEST), cast(Any, ResponsePieces(pieces, content_type)), "no reply")
        chunks = [chunk async for chunk in replying.chunks(add)]
        chunks += reader.rest()
        return reader.finish(REQUEST, "m", is_ended=replying.is_ended), chunks

    return asyncio.run(reading())


def whole(form: Form) -> bytes:
    [(_, data)] = form.events
    return json.dumps(data).encode()


def stream(form: Form, draw: Draw) -> bytes:
    """Returns server-sent events, with what is allowed between and around them."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    named = draw(st.booleans())
    lines = [": keep-alive", ""] if draw(st.booleans()) else []
    for name, data in form.events:
        if named:
            lines.append(f"event: {name}")
        lines += [f"data:{' ' * draw(st.integers(0, 1))}{json.dumps(data, ensure_ascii=draw(st.booleans()))}", ""]
        if draw(st.integers(0, 4)) == 0:
            lines += [": PROCESSING", ""]
    if form.has_done:
        lines += ["data: [DONE]", ""]
    text: str = end.join(lines) + (end if draw(st.booleans()) else "")
    mark: bytes = codecs.BOM_UTF8 if draw(st.booleans()) else b""
    return mark + text.encode()


def cut(text: str, draw: Draw) -> list[str]:
    places = sorted(draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3))) if len(text) > 1 else []
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def check(meant: Meant, reply: ModelReply, chunks: list[ModelChunk]) -> None:
    assert reply.text == meant.text
    assert [(call.name, json.loads(call.arguments_json)) for call in reply.tool_calls] == [
        ("add", {"n": number}) for number in meant.calls
    ]
    assert all(call.id for call in reply.tool_calls)
    assert len({call.id for call in reply.tool_calls}) == len(meant.calls)
    assert reply.finish_reason == ("tool_calls" if meant.calls else "stop")
    assert "".join(chunk.text_delta for chunk in chunks) == meant.text
    assert "".join(chunk.thinking_delta for chunk in chunks) == meant.thinking
    deltas = [chunk.tool_call_delta for chunk in chunks if chunk.tool_call_delta is not None]
    for index, number in enumerate(meant.calls):
        assert "".join(each.name for each in deltas if each.index == index) == "add"
        assert json.loads("".join(each.arguments_delta for each in deltas if each.index == index)) == {"n": number}


# Chat completions -----------------------------------------------------------------------------------------------------


def chat_form(meant: Meant, draw: Draw) -> Form:
    key = draw(st.sampled_from(["delta", "delta", "message"]))
    parts = draw(st.booleans())
    events: list[object] = []

    def put(delta: Json, **more: Any) -> None:
        events.append({"model": "m", "choices": [{"index": 0, key: delta, **more}]})
        match draw(st.integers(0, 9)):
            case 0:
                events.append({"choices": []})
            case 1:
                events.append(None)
            case 2:
                events.append({"choices": [{"index": 0, "delta": None}]})

    put({"role": "assistant", "content": draw(st.sampled_from(["", None]))})
    if meant.thinking:
        field = draw(st.sampled_from(["reasoning_content", "reasoning", "tags"]))
        if field == "tags":
            for piece in cut(f"<think>{meant.thinking}</think>{draw(st.sampled_from(['', chr(10) * 2]))}", draw):
                put({"content": piece})
        else:
            for piece in cut(meant.thinking, draw):
                put({field: piece, "content": None})
    for piece in cut(meant.text, draw) if meant.text else []:
        put({"content": [{"type": "text", "text": piece}] if parts else piece})
    has_ids, index = draw(st.booleans()), draw(st.sampled_from(["own", "none", "zero"]))
    for number, value in enumerate(meant.calls):
        arguments = json.dumps({"n": value})
        place = {"own": {"index": number}, "none": {}, "zero": {"index": 0}}[index]
        call_id: Json = {"id": draw(st.sampled_from([f"c{number}", number + 7]))} if has_ids else {}
        if index == "own" and draw(st.booleans()):
            first, *others = cut(arguments, draw)
            put({"tool_calls": [{**place, **call_id, "function": {"name": "add", "arguments": first}}]})
            for piece in others:
                put({"tool_calls": [{**place, "function": {"arguments": piece}}]})
        else:
            given = {"n": value} if draw(st.booleans()) else arguments
            put(
                {
                    "tool_calls": [
                        {**place, **call_id, "type": "function", "function": {"name": "add", "arguments": given}}
                    ]
                }
            )
    reason = "tool_calls" if meant.calls else "stop"
    has_reason = draw(st.booleans())
    if has_reason or not (meant.text or meant.calls):
        put({}, finish_reason=reason)
    if draw(st.booleans()):
        events.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    return Form([("message", event) for event in events], has_done=not has_reason or draw(st.booleans()))


# Responses ------------------------------------------------------------------------------------------------------------


class ResponsesEvents:
    """Events of the responses API, which say the item that they belong to by its index, by its id, or not at all."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.places = draw(st.sampled_from(["index", "id", "none"]))
        self.events: list[tuple[str, object]] = []
        self.items: list[Json] = []

    def put(self, kind: str, number: int | None = None, **fields: Any) -> None:
        place: Json = {}
        if number is not None and self.places == "index":
            place = {"output_index": number}
        elif number is not None and self.places == "id" and "item" not in fields:
            place = {"item_id": f"i{number}"}
        self.events.append((kind, {"type": kind, **place, **fields}))

    def item(self, kind: str, number: int, **fields: Any) -> Json:
        return {"type": kind, **({} if self.places == "none" else {"id": f"i{number}"}), **fields}

    def begin(self, kind: str, number: int, **fields: Any) -> None:
        self.put("response.output_item.added", number, item=self.item(kind, number, **fields))

    def end(self, kind: str, number: int, **fields: Any) -> None:
        self.items.append(self.item(kind, number, **fields))
        self.put("response.output_item.done", number, item=self.items[-1])

    def thinking(self, thinking: str) -> None:
        self.begin("reasoning", 0)
        for piece in cut(thinking, self.draw):
            kind = self.draw(st.sampled_from(["reasoning_text", "reasoning_summary_text"]))
            self.put(f"response.{kind}.delta", 0, delta=piece)
        self.end("reasoning", 0)

    def text(self, text: str) -> None:
        how = self.draw(st.sampled_from(["deltas", "deltas", "end of text", "item"]))
        if how != "item" or self.draw(st.booleans()):
            self.begin("message", 1, content=[])
        for piece in cut(text, self.draw) if how == "deltas" else []:
            self.put("response.output_text.delta", 1, delta=piece)
            if self.draw(st.integers(0, 5)) == 0:
                self.put("response.output_text.delta", 1, delta=None)
        if how != "item":
            self.put("response.output_text.done", 1, text=text)
        self.end("message", 1, content=[{"type": "output_text", "text": text}])

    def call(self, number: int, value: int) -> None:
        arguments = json.dumps({"n": value})
        named: Json = {"name": "add"}
        if self.draw(st.booleans()):
            named["call_id"] = self.draw(st.sampled_from([f"c{number}", number + 7]))
        if self.draw(st.booleans()):
            self.begin("function_call", number, **named, arguments="")
            for piece in cut(arguments, self.draw):
                self.put("response.function_call_arguments.delta", number, delta=piece)
            self.put("response.function_call_arguments.done", number, arguments=arguments)
        given = {"n": value} if self.draw(st.booleans()) else arguments
        self.end("function_call", number, **named, arguments=given)


def responses_form(meant: Meant, draw: Draw) -> Form:
    sent = ResponsesEvents(draw)
    if meant.thinking:
        sent.thinking(meant.thinking)
    if meant.text:
        sent.text(meant.text)
    for number, value in enumerate(meant.calls, 2):
        sent.call(number, value)
    response: Json = {"object": "response", "status": "completed", "model": "m", "output": sent.items}
    end = draw(st.sampled_from(["completed", "completed", "alone", "whole", "done"]))
    if end == "whole" and not meant.thinking:
        return Form([("", {**response, "error": None})], is_whole=True)
    if end == "alone" and not meant.thinking:
        created = ("response.created", {"type": "response.created"})
        return Form([created, ("response.completed", {"type": "response.completed", "response": response})])
    if end == "done" and sent.events:
        return Form(sent.events, has_done=True)
    sent.put("response.completed", response={**response, "output": draw(st.sampled_from([sent.items, [], None]))})
    return Form(sent.events, has_done=draw(st.booleans()))


# Messages -------------------------------------------------------------------------------------------------------------


def messages_form(meant: Meant, draw: Draw) -> Form:
    has_index = draw(st.booleans())
    events: list[tuple[str, object]] = []
    content: list[Json] = []

    def put(kind: str, **fields: Any) -> None:
        events.append((kind, {"type": kind, **fields}))
        if draw(st.integers(0, 5)) == 0:
            events.append(("ping", {"type": "ping"}))

    def block(start: Json, whole: Json, deltas: list[Json]) -> None:
        place: Json = {"index": len(content)} if has_index else {}
        in_one = draw(st.integers(0, 3)) == 0
        put("content_block_start", **place, content_block=whole if in_one else start)
        for delta in [] if in_one else deltas:
            put("content_block_delta", **place, delta=delta)
        put("content_block_stop", **place)
        content.append(whole)

    put("message_start", message={"model": "m", "usage": {"input_tokens": 3, "output_tokens": 1}})
    if meant.thinking:
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in cut(meant.thinking, draw)]
        signature = {"type": "signature_delta", "signature": "s"}
        block(
            {"type": "thinking", "thinking": ""},
            {"type": "thinking", "thinking": meant.thinking, "signature": "s"},
            [*deltas, signature],
        )
    if meant.text:
        block(
            {"type": "text", "text": ""},
            {"type": "text", "text": meant.text},
            [{"type": "text_delta", "text": piece} for piece in cut(meant.text, draw)],
        )
    for number, value in enumerate(meant.calls):
        call_id: Json = {"id": draw(st.sampled_from([f"c{number}", number + 7, None]))} if draw(st.booleans()) else {}
        pieces = cut(json.dumps({"n": value}), draw)
        named = {"type": "tool_use", "name": "add", **call_id}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]
        block({**named, "input": {}}, {**named, "input": {"n": value}}, deltas)
    reason = "tool_use" if meant.calls else "end_turn"
    if draw(st.integers(0, 3)) == 0:
        message = {"type": "message", "role": "assistant", "content": content, "stop_reason": reason, "usage": {}}
        return Form([("", message)], is_whole=True)
    has_reason = not content or draw(st.booleans())
    put("message_delta", delta={"stop_reason": reason if has_reason else None}, usage={"output_tokens": 4})
    if not has_reason or draw(st.booleans()):
        put("message_stop")
    return Form(events)


FORMS = {"chat": chat_form, "responses": responses_form, "messages": messages_form}


@pytest.mark.parametrize("api", FORMS)
@given(meant=MEANT, data=st.data())
def test_a_reply_is_the_same_in_each_form_and_each_cut(api: str, meant: Meant, data: st.DataObject) -> None:
    form = FORMS[api](meant, data.draw)
    check(meant, *read(api, form, data.draw))


KEYS = (
    *("type", "event", "item", "output_index", "item_id", "delta", "response", "output", "error", "status", "object"),
    *(
        "content",
        "content_block",
        "index",
        "message",
        "stop_reason",
        "usage",
        "name",
        "arguments",
        "input",
        "id",
        "text",
    ),
)
KINDS = (
    *("response.output_item.added", "response.output_item.done", "response.output_text.delta", "response.completed"),
    *("response.function_call_arguments.delta", "message_start", "content_block_start", "content_block_delta"),
    *("message_delta", "message_stop", "message", "error", "function_call", "text", "tool_use", "text_delta"),
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.parametrize("api", ["responses", "messages"])
@given(events=st.lists(ANY, max_size=4), data=st.data())
def test_any_events_are_a_reply_or_an_error_of_archon(api: str, events: list[object], data: st.DataObject) -> None:
    try:
        reply, chunks = read(api, Form([("message", event) for event in events], has_done=True), data.draw)
    except ArchonError:
        return
    assert isinstance(reply.text, str)
    for each in chunks:
        (each.text_delta + each.thinking_delta).encode()
