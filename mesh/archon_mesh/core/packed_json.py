"""JSON values packed against a source that has most of their parts: a part that the source has, too, becomes the path
to it. A request is recorded beside its messages in this form, and not a second time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from archon.errors import InvalidArgument

PATH: Final = "$"
"""The only key of an object that stands for a part of the source; its value is the path, a list of keys and indexes."""

JOINED: Final = "$+"
"""The only key of an object that stands for a text; its value is a list of texts and of paths to texts."""

ESCAPED: Final = "$$"
"""The only key of an object that stands for an object whose only key is one of these."""

_MARKS: Final = ({PATH}, {JOINED}, {ESCAPED})

_TEXT: Final = "'"
"""Marks a text among the parts."""

MIN_PACKED: Final = 24
"""Characters of a part from which on it is replaced: a path is not much shorter."""

SHORT: Final = 200
"""Characters of a member up to which it is not worth a search of the whole source."""

Path = list[str | int]


def pack(value: Any, source: Any) -> Any:
    """Returns the value with paths in place of the parts that the source has. Equal parts have the same members in the
    same order. Raises RecursionError if one of them is nested too deep."""
    if (same := _packed_members(value, source)) is not None:
        return same
    parts: dict[str, Path] = {}
    _index(source, [], parts)
    texts = sorted((part[1:] for part in parts if part[0] == _TEXT), key=len, reverse=True)
    return _packed(value, parts, texts)


def unpack(value: Any, source: Any) -> Any:
    """Returns the value that was packed. Raises InvalidArgument if the source lacks a part."""
    if isinstance(value, Mapping):
        if value.keys() == {PATH}:
            return _part(source, value[PATH])
        if value.keys() == {JOINED}:
            return _joined([unpack(piece, source) for piece in _list(value[JOINED])])
        if value.keys() == {ESCAPED}:
            value = value[ESCAPED]
            if not isinstance(value, Mapping):
                raise InvalidArgument("a packed value was changed: it escapes no object")
        return {key: unpack(member, source) for key, member in value.items()}
    return [unpack(item, source) for item in value] if isinstance(value, list) else value


def _packed_members(value: Any, source: Any) -> dict[str, Any] | None:
    """Returns an object whose long members are all members of the source, packed: mostly a request is sent as it is
    recorded. None for any other value, which takes ten times as long."""
    if not isinstance(value, dict) or not isinstance(source, dict) or value.keys() in _MARKS:
        return None
    packed: dict[str, Any] = {}
    for key, member in value.items():
        text = _text(member)
        if text is None and not isinstance(member, (dict, list, tuple)):
            packed[key] = member
        elif text is not None and key in source and text == _text(source[key]):
            packed[key] = {PATH: [key]}
        elif text is not None and len(text) > SHORT:
            return None
        else:
            packed[key] = _packed(member, {}, ())
    return packed


def _index(value: Any, path: Path, parts: dict[str, Path]) -> None:
    if path and (text := _text(value)) is not None:
        parts.setdefault(text, path)
    if isinstance(value, dict):
        for key, member in value.items():
            _index(member, [*path, key], parts)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _index(item, [*path, index], parts)


def _packed(value: Any, parts: Mapping[str, Path], texts: Sequence[str]) -> Any:
    if (text := _text(value)) is not None and text in parts:
        return {PATH: parts[text]}
    if isinstance(value, dict):
        packed = {key: _packed(member, parts, texts) for key, member in value.items()}
        return {ESCAPED: packed} if value.keys() in _MARKS else packed
    if isinstance(value, (list, tuple)):
        return [_packed(item, parts, texts) for item in value]
    if isinstance(value, str) and len(value) > MIN_PACKED:
        pieces = list(_pieces(value, texts, parts))
        return {JOINED: pieces} if len(pieces) > 1 else value
    return value


def _pieces(text: str, texts: Sequence[str], parts: Mapping[str, Path]) -> Iterator[Any]:
    """Yields the pieces of a text that was joined from others, as some servers take messages: the longest that the
    source has become paths."""
    for number, known in enumerate(texts):
        start = text.find(known) if len(known) < len(text) else -1
        if start >= 0:
            rest = texts[number:]
            yield from _pieces(text[:start], rest, parts)
            yield {PATH: parts[_TEXT + known]}
            yield from _pieces(text[start + len(known) :], rest, parts)
            return
    if text in texts:
        yield {PATH: parts[_TEXT + text]}
    elif text:
        yield text


def _text(value: Any) -> str | None:
    """Returns the text by which a part is found, None for one that is too short: a text is marked, because an object
    may have the same text."""
    if isinstance(value, str):
        return _TEXT + value if len(value) >= MIN_PACKED else None
    if not value or not isinstance(value, (dict, list, tuple)):
        return None
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) >= MIN_PACKED else None


def _joined(pieces: Sequence[Any]) -> str:
    if not all(isinstance(piece, str) for piece in pieces):
        raise InvalidArgument("a packed value was changed: it joins something that is no text")
    return "".join(pieces)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidArgument("a packed value was changed: it joins no list")
    return value


def _part(source: Any, path: Any) -> Any:
    found = source
    try:
        for step in path:
            found = found[step]
    except (LookupError, TypeError):
        raise InvalidArgument(f"a packed value was changed: its source has no part {path!r}") from None
    return found
