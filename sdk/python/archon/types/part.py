"""Pieces of content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument
from archon.surrogates import without_surrogates
from archon.wire import JSON_TYPE

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of content of a task, an answer or a question: one of `text`, inline bytes (`raw`), a `url`, or one JSON
    value as text (`data_json`).

    `filename` is for display, without a path. An empty `media_type` is text/plain for text, and
    application/octet-stream for bytes. Keys of `metadata` are in reverse DNS. Source: A2A 1.0, section 4.1.6.

    Raises InvalidArgument unless exactly one of the four is given; an empty text counts if it is given.
    """

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data_json: str | None = None
    filename: str = ""
    media_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = (self.text is not None) + (self.raw is not None) + (self.url is not None) + (self.data_json is not None)
        if given != 1:
            raise InvalidArgument("a part has exactly one of text, raw, url and data_json")

    @property
    def proto(self) -> common_pb2.Part:
        """The part as a message."""
        message = common_pb2.Part()
        _write(self, message)
        return message

    @classmethod
    def from_proto(cls, message: common_pb2.Part) -> Part:
        """Returns the part that a message has. One without content, as of a later version, is an empty text."""
        content = message.WhichOneof("content")
        return cls(
            text=message.text if content in ("text", None) else None,
            raw=message.raw if content == "raw" else None,
            url=message.url if content == "url" else None,
            data_json=message.data_json if content == "data_json" else None,
            filename=message.filename,
            media_type=message.media_type,
            metadata=dict(message.metadata),
        )


def to_parts(messages: Iterable[common_pb2.Part]) -> tuple[Part, ...]:
    """Returns the parts of messages."""
    return tuple(map(Part.from_proto, messages))


def to_messages(parts: Iterable[Part]) -> list[common_pb2.Part]:
    """Returns the messages of parts."""
    return [part.proto for part in parts]


def add_parts(field: RepeatedCompositeFieldContainer[common_pb2.Part], parts: Iterable[Part]) -> None:
    """Adds parts to a field, without a message in between."""
    for part in parts:
        _write(part, field.add())


def json_part(text: str) -> Part:
    """Makes a part of a JSON text, whose lone surrogates are replaced."""
    return Part(data_json=without_surrogates(text), media_type=JSON_TYPE)


def _write(part: Part, message: common_pb2.Part) -> None:
    if part.text is not None:
        message.text = part.text
    elif part.data_json is not None:
        message.data_json = part.data_json
    elif part.url is not None:
        message.url = part.url
    elif part.raw is not None:
        message.raw = part.raw
    if part.filename:
        message.filename = part.filename
    if part.media_type:
        message.media_type = part.media_type
    if part.metadata:
        message.metadata.update(part.metadata)
