"""A plain value keeps every field of its message: what a caller reads, changes and sends back loses nothing."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest
from google.protobuf.descriptor import FieldDescriptor

from archon.agent import CallRecord, QuestionTerms, ToolHealth, TraceContext
from archon.memory import Published, PublishItem
from archon.types import Budget, Edge, Failure, MemoryRef, Part, Plan, PlanStep, TaskRef, Usage

TYPES: list[Any] = [
    *(Budget, Usage, Part, MemoryRef, TaskRef, Edge, Failure, PlanStep, Plan, QuestionTerms, PublishItem, Published),
    *(CallRecord, ToolHealth, TraceContext),
]
SCALARS: dict[int, Any] = {
    FieldDescriptor.TYPE_STRING: "{}",
    FieldDescriptor.TYPE_BYTES: b"b",
    FieldDescriptor.TYPE_BOOL: True,
    FieldDescriptor.TYPE_DOUBLE: 0.5,
}


def fill(message: Any, depth: int = 0) -> Any:
    """Sets each field of a message, of a oneof the first."""
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof and field.containing_oneof.fields[0] is not field:
            continue
        held, kind = getattr(message, field.name), field.message_type
        is_list = hasattr(held, "append") or hasattr(held, "add")
        if kind is not None and kind.GetOptions().map_entry:
            held["key"] = "value"
        elif kind is not None:
            member = held.add() if is_list else held
            if kind.full_name.startswith("google.protobuf."):
                member.seconds = 5
            elif depth < 3:
                fill(member, depth + 1)
        else:
            value = field.enum_type.values[1].number if field.enum_type else SCALARS.get(field.type, 1)
            if is_list:
                held.append(value)
            else:
                setattr(message, field.name, value)
    return message


@pytest.mark.parametrize("type_", TYPES, ids=lambda each: each.__name__)
def test_no_field_of_a_message_is_lost(type_: Any) -> None:
    message = fill(get_type_hints(type_.proto.fget)["return"]())
    assert message.ListFields()
    assert type_.from_proto(message).proto == message
