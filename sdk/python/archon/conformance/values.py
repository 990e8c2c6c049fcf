"""Messages of the contract as plain values, as the scenarios write them, and back.

Fields have their names in the proto files. An enum value is its name without the prefix, or a number; a duration is in
seconds, a timestamp in seconds since the Unix epoch; bytes are a text of UTF-8, or `{hex: ...}`. Fields that are not
set are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from archon.wire import set_seconds, to_seconds

_TIMES: Final = ("google.protobuf.Duration", "google.protobuf.Timestamp")
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def to_value(message: Message) -> dict[str, Any]:
    """Returns the fields of a message that are set."""
    return {field.name: _from_field(field, content) for field, content in message.ListFields()}


def _from_field(field: Any, content: Any) -> Any:
    if (entry := _map_value(field)) is not None:
        return {key: _from_one(entry, content[key]) for key in content}
    if field.is_repeated:
        return [_from_one(field, each) for each in content]
    return _from_one(field, content)


def _from_one(field: Any, content: Any) -> Any:
    if field.message_type is not None:
        return to_seconds(content) if field.message_type.full_name in _TIMES else to_value(content)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(content)
        return content if known is None else known.name.removeprefix(enum_prefix(field.enum_type))
    if isinstance(content, bytes):
        try:
            return content.decode()
        except UnicodeDecodeError:
            return {"hex": content.hex()}
    return content


def fill(message: Message, value: Mapping[str, Any]) -> None:
    """Sets the fields of a message; `unknown` has the bytes of fields that it does not know, in hexadecimal digits.
    Raises ValueError for a field that it does not have."""
    message.SetInParent()
    for name, content in value.items():
        if name == "unknown":
            message.MergeFromString(bytes.fromhex(str(content)))
            continue
        field = message.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise ValueError(f"{message.DESCRIPTOR.name} has no field {name!r}")
        _set(message, field, content)


def _set(message: Message, field: Any, content: Any) -> None:
    target = getattr(message, field.name)
    if (entry := _map_value(field)) is not None:
        for key, each in content.items():
            if entry.message_type is not None:
                fill(target[key], each)
            else:
                target[key] = _scalar(entry, each)
    elif field.is_repeated:
        for each in content:
            if field.message_type is not None:
                _set_message(target.add(), each)
            else:
                target.append(_scalar(field, each))
    elif field.message_type is not None:
        _set_message(target, content)
    else:
        setattr(message, field.name, _scalar(field, content))


def _set_message(target: Any, content: Any) -> None:
    if target.DESCRIPTOR.full_name in _TIMES:
        target.SetInParent()
        set_seconds(target, float(content))
    else:
        fill(target, content)


def _scalar(field: Any, content: Any) -> Any:
    if field.enum_type is not None and isinstance(content, str):
        return field.enum_type.values_by_name[enum_prefix(field.enum_type) + content].number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes.fromhex(content["hex"]) if isinstance(content, Mapping) else str(content).encode()
    return content


def enum_prefix(enum: EnumDescriptor) -> str:
    """The prefix of the names of an enum's values: TASK_STATE_ of TaskState."""
    return "_".join(_WORD.split(enum.name)).upper() + "_"


def _map_value(field: Any) -> Any:
    """The field of a map's values; None of any other field."""
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return None
    return field.message_type.fields_by_name["value"]
