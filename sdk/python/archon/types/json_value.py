"""Messages as JSON types."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from archon.types.task_state import TaskState
from archon.wire import to_seconds

_TIMES: Final = ("google.protobuf.Timestamp", "google.protobuf.Duration")
_UPPER: Final = "archon.api.common.v1.ErrorReason"
"""Reasons are constants in upper case, as in `archon.errors`."""

_STATE: Final = "archon.api.common.v1.TaskState"


def json_value(message: Message) -> dict[str, Any]:
    """Returns the fields of a message as JSON types. Fields that are messages are left out if they are not set, and so
    are unset `optional` fields; all others have a value."""
    values: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value, one = getattr(message, field.name), _converter(field)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = _converter(field.message_type.fields_by_name["value"])
            values[field.name] = {str(key): item(value[key]) for key in value}
        elif field.is_repeated:
            values[field.name] = [one(item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            values[field.name] = one(value)
    return values


def _converter(field: Any) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return to_seconds if field.message_type.full_name in _TIMES else json_value
    if (enum := field.enum_type) is not None:
        return lambda number: _name(enum, number)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda data: base64.b64encode(data).decode()
    return lambda value: value


def _name(enum: EnumDescriptor, number: int) -> str:
    if enum.full_name == _STATE:
        return str(TaskState.from_proto(number))
    value = enum.values_by_number.get(number)
    if not number or value is None:
        return ""
    name = value.name.removeprefix(enum.values_by_number[0].name.removesuffix("UNSPECIFIED"))
    return name if enum.full_name == _UPPER else name.lower()
