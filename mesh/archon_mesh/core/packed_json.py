"""JSON values packed against a source that has most of their parts: a part that the source has, too, becomes the path
to it. A request is recorded beside its messages in this form, and not a second time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon.errors import InvalidArgument

PATH: Final = "$"
"""The only key of an object that stands for a part of the source; its value is the path, a list of keys and indexes."""

ESCAPED: Final = "$$"
"""The only key of an object that stands for an object whose only key is PATH or ESCAPED."""

MIN_PACKED: Final = 24
"""Characters of a part from which on it is replaced: a path is not much shorter."""

Path = list[str | int]


def pack(value: Any, source: Any) -> Any:
    """Returns the value with paths in place of the parts that the source has. Equal parts have the same members in the
    same order. Raises RecursionError if one of them is nested too deep."""
    parts: dict[str, Path] = {}
    _index(source, [], parts)
    return _packed(value, parts)


def unpack(value: Any, source: Any) -> Any:
    """Returns the value that was packed. Raises InvalidArgument if the source lacks a part."""
    if isinstance(value, Mapping):
        if value.keys() == {PATH}:
            return _part(source, value[PATH])
        if value.keys() == {ESCAPED}:
            value = value[ESCAPED]
            if not isinstance(value, Mapping):
                raise InvalidArgument("a packed value was changed: it escapes no object")
        return {key: unpack(member, source) for key, member in value.items()}
    return [unpack(item, source) for item in value] if isinstance(value, list) else value


def _index(value: Any, path: Path, parts: dict[str, Path]) -> None:
    if path and (text := _text(value)) is not None:
        parts.setdefault(text, path)
    if isinstance(value, Mapping):
        for key, member in value.items():
            _index(member, [*path, key], parts)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            _index(item, [*path, index], parts)


def _packed(value: Any, parts: Mapping[str, Path]) -> Any:
    if (text := _text(value)) is not None and text in parts:
        return {PATH: parts[text]}
    if isinstance(value, Mapping):
        packed = {key: _packed(member, parts) for key, member in value.items()}
        return {ESCAPED: packed} if packed.keys() in ({PATH}, {ESCAPED}) else packed
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_packed(item, parts) for item in value]
    return value


def _text(value: Any) -> str | None:
    """Returns the text by which a part is found, None for one that is too short: a text is marked, because its own text
    may be that of an object."""
    if isinstance(value, str):
        return f"'{value}" if len(value) >= MIN_PACKED else None
    if not value or not isinstance(value, (Mapping, Sequence)):
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) >= MIN_PACKED else None


def _part(source: Any, path: Any) -> Any:
    found = source
    try:
        for step in path:
            found = found[step]
    except (LookupError, TypeError):
        raise InvalidArgument(f"a packed value was changed: its source has no part {path!r}") from None
    return found
