"""Messages between agents as plain values: their contents by type, and their forms."""

from __future__ import annotations

from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon.types import (
    ContextRequest,
    ErrorReport,
    HelpRequest,
    InformationShare,
    Message,
    MessageType,
    Notification,
    StatusUpdate,
    TaskRequest,
    TaskResponse,
)
from archon.types.message_content import content_of, to_json_value, type_of

CONTENTS = [
    TaskRequest("write", "t", "a page", 12.5, 3, {"a": 1}),
    TaskResponse("partial", {"pages": 2}, "t", "too long"),
    StatusUpdate("half", "t", 0.5),
    ErrorReport("it broke", "t", "tool.crash"),
    InformationShare("height", 12, 0.9),
    ContextRequest("how high?", ("height",)),
    HelpRequest("how high?", "t", {"b": [1]}),
    Notification("hello"),
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: type(content).__name__)
def test_a_typed_content_survives_the_wire_and_json(content: Any) -> None:
    kind = type_of(content)
    assert kind is not None
    message = Message("a", "b", kind, to_json_value(content), 1.5, "c", "m", "r.1", 2.5, 7)
    again = Message.from_proto(message.proto)
    assert again.typed() == content
    assert again.to_dict() == message.to_dict()
    assert Message.from_dict(message.to_dict()) == message


def test_every_type_has_a_content() -> None:
    assert {type_of(content) for content in CONTENTS} == set(MessageType)


@pytest.mark.parametrize(
    ("kind", "text", "content"),
    [
        (MessageType.HELP_REQUEST, "help", HelpRequest("help")),
        (MessageType.TASK_RESPONSE, "done", TaskResponse("success", "done")),
        (MessageType.NOTIFICATION, "news", Notification("news")),
        (MessageType.ERROR, "broken", ErrorReport("broken")),
    ],
)
def test_a_text_stands_for_the_first_field(kind: MessageType, text: str, content: object) -> None:
    assert content_of(kind, text) == content


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        (MessageType.INFORMATION_SHARE, "height is 12", "content must be an object"),
        (MessageType.NOTIFICATION, ["a", "list"], "content must be an object"),
        (MessageType.HELP_REQUEST, {}, "issue is missing"),
        (MessageType.HELP_REQUEST, {"issue": 3}, "issue must be a text"),
        (MessageType.TASK_REQUEST, {"description": "x", "priority": 1.5}, "priority must be a whole number"),
        (MessageType.TASK_REQUEST, {"description": "x", "priority": True}, "priority must be a whole number"),
        (MessageType.TASK_REQUEST, {"description": "x", "context": []}, "context must be an object"),
        (MessageType.TASK_RESPONSE, {"status": "maybe"}, "status must be one of success, partial, failed"),
        (MessageType.STATUS_UPDATE, {"status": "x", "progress": "half"}, "progress must be a number"),
        (MessageType.INFORMATION_SHARE, {"key": "k", "confidence": None}, "confidence must be a number"),
        (MessageType.CONTEXT_REQUEST, {"keys": [1]}, "keys must be a list of texts"),
    ],
)
def test_a_content_that_is_not_of_its_type_is_refused(kind: MessageType, content: object, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"of type {kind}: {message}"):
        content_of(kind, content)


def test_fields_of_a_later_version_are_left_out() -> None:
    assert content_of(MessageType.NOTIFICATION, {"text": "hello", "colour": "red"}) == Notification("hello")


def test_a_type_of_a_later_version_is_a_notification() -> None:
    assert MessageType.of_number(99) is MessageType.NOTIFICATION


@pytest.mark.parametrize(
    "values", [{}, {"sender_id": "a", "colour": "red"}, {"sender_id": "a", "message_type": "gossip"}]
)
def test_a_dictionary_that_is_no_message_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Message.from_dict(values)


def test_a_content_without_a_json_form_is_refused() -> None:
    for content in (object(), float("nan"), {1, 2}):
        with pytest.raises(InvalidArgument, match="a text or a JSON value"):
            _ = Message("a", content=content).proto


def test_text_that_is_not_unicode_is_made_safe() -> None:
    assert Message.from_proto(Message("a", "b", content="half \ud800 a pair").proto).text == "half ? a pair"
