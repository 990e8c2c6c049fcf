"""Conversions between Python values and the messages that all areas of the contract share: times, parts, policies.

Both directions stand side by side. Messages of one area are converted in that area's own `convert` module.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from archon.api.common.v1 import common_pb2
from archon.errors import InvalidArgument, MessageTooLarge
from archon.propagation import PropagationPolicy

MAX_CHECKED_BYTES: Final = 4 * 1024 * 1024
"""The largest message that senders send; receivers refuse a larger one with a typed error."""

CONTENT_ROOM: Final = 4096
"""Bytes of a message that content leaves for all other fields."""

MAX_SECONDS: Final = 1e9
MAX_FIELD: Final = 253_402_300_799
"""Seconds of the largest timestamp, the end of the year 9999."""

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain"

_POLICIES: Final = {
    PropagationPolicy.FINAL_RESPONSE_ONLY: common_pb2.PROPAGATION_POLICY_FINAL_RESPONSE_ONLY,
    PropagationPolicy.TOOL_RESULTS: common_pb2.PROPAGATION_POLICY_TOOL_RESULTS,
    PropagationPolicy.FULL_HISTORY: common_pb2.PROPAGATION_POLICY_FULL_HISTORY,
}
_POLICY_OF: Final = {int(number): policy for policy, number in _POLICIES.items()}


# Times: float seconds, in whole microseconds


def to_seconds(message: Timestamp | Duration) -> float:
    """Seconds of a duration, or seconds since the Unix epoch of a timestamp."""
    return (message.seconds * 1_000_000 + int(message.nanos / 1000)) / 1e6


def set_seconds(message: Timestamp | Duration, seconds: float) -> None:
    """Writes seconds into a field. `to_seconds` reads the same number, rounded to a microsecond. Raises InvalidArgument
    for a number that is not finite, or that the field cannot hold."""
    if not -MAX_FIELD <= seconds <= MAX_FIELD:  # NaN is in no range
        raise InvalidArgument(f"{seconds} is not a valid number of seconds")
    whole = int(seconds)
    micros = round((seconds - whole) * 1e6)
    if micros == 1_000_000 or micros == -1_000_000:
        whole, micros = whole + micros // 1_000_000, 0
    message.seconds, message.nanos = whole, micros * 1000


def duration(seconds: float) -> Duration:
    """A duration. Raises InvalidArgument if the number is not finite or exceeds a billion seconds."""
    if not math.isfinite(seconds) or abs(seconds) > MAX_SECONDS:
        raise InvalidArgument(f"{seconds} is not a valid number of seconds")
    message = Duration()
    set_seconds(message, seconds)
    return message


def timestamp(seconds: float) -> Timestamp:
    """A timestamp of seconds since the Unix epoch."""
    message = Timestamp()
    set_seconds(message, seconds)
    return message


# Parts


def to_parts(content: str | Sequence[common_pb2.Part], what: str) -> Sequence[common_pb2.Part]:
    """A text as one part; parts unchanged. `what` names the content in errors. Raises MessageTooLarge if the content
    does not fit in a message, InvalidArgument if the text is not valid UTF-8."""
    parts = [common_pb2.Part(text=_utf8(content, what))] if isinstance(content, str) else content
    size = sum(part.ByteSize() for part in parts)
    if size > MAX_CHECKED_BYTES - CONTENT_ROOM:
        raise MessageTooLarge(
            f"{what} has {size:,} bytes, more than the {MAX_CHECKED_BYTES - CONTENT_ROOM:,} that a message takes; "
            "pass large content by URL",
            metadata={"size": str(size)},
        )
    return parts


def text_of(parts: Iterable[common_pb2.Part]) -> str:
    """The text parts and the JSON values, joined by empty lines. A JSON value of another media type than
    application/json is for a reader of that type, and left out."""
    return "\n\n".join(part.text or part.data_json for part in parts if is_text(part))


def is_text(part: common_pb2.Part) -> bool:
    """Whether the part is text, or a JSON value, which is read as text."""
    content = part.WhichOneof("content")
    return content == "text" or (content == "data_json" and _media_type(part) in ("", JSON_TYPE))


def _media_type(part: common_pb2.Part) -> str:
    return part.media_type.partition(";")[0].strip().lower()


def described(parts: Iterable[common_pb2.Part]) -> str:
    """The text of `text_of`, with a label in the place of each file, such as `[a.png, image/png, 1,234 bytes]`."""
    pieces = (part.text or part.data_json if is_text(part) else _label(part) for part in parts)
    return "\n\n".join(filter(None, pieces))


def _label(part: common_pb2.Part) -> str:
    match part.WhichOneof("content"):
        case "raw":
            kind = part.media_type or "application/octet-stream"
            return f"[{', '.join(filter(None, (part.filename, kind, f'{len(part.raw):,} bytes')))}]"
        case "url":
            return f"[{', '.join(filter(None, (part.filename or 'file', part.media_type)))}: {part.url}]"
    return ""


def parts_text(parts: Iterable[common_pb2.Part]) -> str:
    """Text, data and URLs as they are, a line each, and the file name or media type of other parts in brackets."""
    return "\n".join(filter(None, map(_part_text, parts)))


def _part_text(part: common_pb2.Part) -> str:
    match part.WhichOneof("content"):
        case "text":
            text = part.text.strip()
        case "data_json":
            text = part.data_json
        case "url":
            text = part.url
        case _:
            text = "" if part.filename else f"[{part.media_type or 'content'}]"
    return f"[{part.filename}] {text}".rstrip() if part.filename else text


def _utf8(text: str, what: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} is not valid UTF-8: {error.reason} at {error.start}") from None
    return text


# Propagation policies


def policy_to_proto(policy: PropagationPolicy | str) -> common_pb2.PropagationPolicy.ValueType:
    """The enum value of a policy or of its name. Raises InvalidArgument for an unknown policy."""
    try:
        return _POLICIES[PropagationPolicy(policy)]
    except ValueError:
        raise InvalidArgument(f"unknown policy {policy!r}; use one of {', '.join(PropagationPolicy)}") from None


def policy_from_proto(number: int) -> PropagationPolicy:
    """The policy; the narrowest one if the value is unspecified or unknown."""
    return _POLICY_OF.get(number, PropagationPolicy.FINAL_RESPONSE_ONLY)


# Encoding


_ONE_BYTE: Final = [bytes([value]) for value in range(0x80)]


def encode_varint(value: int) -> bytes:
    """Returns a number of 0 or more as a varint: the length and key of a field."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
