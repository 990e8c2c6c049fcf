"""Changes of a message by a field mask, as AIP-134 and AIP-161 have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from archon.errors import FieldViolation, InvalidArgument

MAX_PATHS: Final = 100
"""Paths of a mask."""

EVERY: Final = "*"
"""The path that names all fields."""

M = TypeVar("M", bound=Message)


def masked(present: M, given: M, paths: Sequence[str]) -> M:
    """Returns `present` with the fields of `given` that `paths` name, as `checked_paths` returns them. A field that
    `given` does not set gets its default."""
    changed, source = type(present)(), type(given)()
    changed.CopyFrom(present)
    source.CopyFrom(given)
    for path in paths:
        _set_parents(source, path)
    FieldMask(paths=paths).MergeMessage(source, changed, replace_message_field=True, replace_repeated_field=True)
    return changed


def checked_paths(mask: FieldMask, given: Message, fields: Sequence[str]) -> list[str]:
    """Returns the paths of a mask: all `fields` if it has `*`, and the `fields` that `given` sets if it is empty.
    Raises InvalidArgument if a path is unknown, or names no part of `fields`."""
    if not mask.paths:
        return [field.name for field, _ in given.ListFields() if field.name in fields]
    if len(mask.paths) > MAX_PATHS:
        raise _invalid(f"at most {MAX_PATHS} paths")
    if EVERY in mask.paths:
        return list(fields)
    descriptor: Any = given.DESCRIPTOR
    for path in mask.paths:
        known = FieldMask(paths=[path]).IsValidForDescriptor(descriptor)
        if not known or path.partition(".")[0] not in fields:
            raise _invalid(f"{path[:100]!r} cannot be changed: there are {', '.join(fields)}")
    return list(mask.paths)


def _set_parents(message: Message, path: str) -> None:
    """Sets the messages on the way to a field: those that are not set would be left out of a merge."""
    for name in path.split(".")[:-1]:
        message = getattr(message, name)
        message.SetInParent()


def _invalid(description: str) -> InvalidArgument:
    text = f"update_mask: {description}"
    return InvalidArgument(text, field_violations=[FieldViolation("update_mask", description)])
