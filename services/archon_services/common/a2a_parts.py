"""Content between A2A and Archon: parts, and the ids of A2A messages that parts keep.

Source: A2A 1.0, section 4.1.6. A number in JSON is a double in A2A's messages: a whole number becomes an integer again,
and a JSON value with integers that a double cannot hold crosses as a text of the media type application/json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from a2a.types import a2a_pb2
from google.protobuf import json_format, struct_pb2

from archon.errors import InvalidArgument
from archon.types.part import Part
from archon.wire import JSON_TYPE

MESSAGE_ID: Final = "org.a2a-protocol/message-id"
"""Metadata of the first part of a goal or an answer: the id of the A2A message that it came with."""

TEXT_TYPE: Final = "text/plain"
_EXACT: Final = 2**53
"""Integers below this size are exact in a double."""


def parts_from_a2a(message: a2a_pb2.Message) -> list[Part]:
    """Returns the content of a message. The first part has the message's id in its metadata. Raises InvalidArgument if
    a part has no content."""
    parts = [_from_a2a(part) for part in message.parts]
    if parts and message.message_id:
        parts[0] = replace(parts[0], metadata={**parts[0].metadata, MESSAGE_ID: message.message_id})
    return parts


def parts_to_a2a(parts: Iterable[Part]) -> list[a2a_pb2.Part]:
    """Returns the parts of a message or an artifact."""
    return [_to_a2a(part) for part in parts]


def message_id_of(parts: Sequence[Part]) -> str:
    """Returns the id of the A2A message that content came with; empty if it came otherwise."""
    return parts[0].metadata.get(MESSAGE_ID, "") if parts else ""


def struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Returns JSON values as a message."""
    message = struct_pb2.Struct()
    message.update(dict(values))
    return message


def strings_of(metadata: struct_pb2.Struct) -> dict[str, str]:
    """Returns metadata as texts: other values than texts as JSON."""
    values = plain(metadata)
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def plain(value: struct_pb2.Struct | struct_pb2.Value) -> Any:
    """Returns a JSON value with whole numbers as integers."""
    return _whole(json_format.MessageToDict(value))


def _from_a2a(part: a2a_pb2.Part) -> Part:
    common: dict[str, Any] = {
        "filename": part.filename,
        "media_type": part.media_type,
        "metadata": strings_of(part.metadata) if part.HasField("metadata") else {},
    }
    content = part.WhichOneof("content")
    if content == "text":
        return Part(text=part.text, **common)
    if content == "raw":
        return Part(raw=part.raw, **common)
    if content == "url":
        return Part(url=part.url, **common)
    if content == "data":
        text = json.dumps(plain(part.data), ensure_ascii=False)
        return Part(data_json=text, **{**common, "media_type": part.media_type or JSON_TYPE})
    raise InvalidArgument("a part has exactly one of text, raw, url and data")


def _to_a2a(part: Part) -> a2a_pb2.Part:
    message = a2a_pb2.Part(filename=part.filename, media_type=part.media_type)
    if part.raw is not None:
        message.raw = part.raw
    elif part.url is not None:
        message.url = part.url
    elif part.data_json is not None:
        _set_data(message, part.data_json)
    else:
        message.text = part.text or ""
    if metadata := {key: value for key, value in part.metadata.items() if key != MESSAGE_ID}:
        message.metadata.update(metadata)
    return message


def _set_data(message: a2a_pb2.Part, text: str) -> None:
    try:
        value = json.loads(text)
        if _is_exact(value):
            json_format.ParseDict(value, message.data)
            return
    except (ValueError, RecursionError, json_format.ParseError):
        pass
    message.text, message.media_type = text, JSON_TYPE


def _is_exact(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_exact, value.values()))
    if isinstance(value, list):
        return all(map(_is_exact, value))
    return not isinstance(value, int) or abs(value) <= _EXACT


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    return value
