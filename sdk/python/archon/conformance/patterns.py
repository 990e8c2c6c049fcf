"""Patterns of values, and references to values that a scenario has seen.

A pattern is a plain value, which must be equal; a field that it does not name may have any value, and one that it
names as 0, "", false or null may be absent. `$name` and `${name}` are values that were captured before. An object of
keys that begin with `$` is a condition; several hold together:

    $any: true             present, with any value          $re: TEXT      a text in which the expression is found
    $absent: true          not present, or empty            $json: P       a text of JSON whose value matches
    $between: [a, b]       a number                         $has: P        a list with such an element, or a text
    $size: n or [a, b]     length of a text or list         $not: P        does not match
    $one_of: [P, ...]      matches one of them              $as: NAME      captures the value
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from archon.secret_answers import seal

_REFERENCE: Final = re.compile(r"\$\{(\w+)\}")
_EMPTY: Final[tuple[Any, ...]] = (None, 0, "", False, [], {})


def resolve(value: Any, names: Mapping[str, Any]) -> Any:
    """Returns a value with its references filled in. `{$repeat: [text, n]}` is the text n times, `{$quoted: value}` its
    JSON, `{$escaped: text}` the text with the escapes of JSON, also of lone surrogates, and `{$sealed: [schema, text]}`
    the text as a secret answer to the question with this schema.

    Raises ValueError for an unknown name.
    """
    if isinstance(value, str):
        if value.startswith("$") and value[1:].isidentifier():
            return _named(value[1:], names)
        return _REFERENCE.sub(lambda found: str(_named(found[1], names)), value)
    if isinstance(value, Mapping):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        if set(value) == {"$quoted"}:
            return json.dumps(resolve(value["$quoted"], names))
        if set(value) == {"$sealed"}:
            return seal(*resolve(value["$sealed"], names))
        if set(value) == {"$escaped"}:
            return json.loads(f'"{value["$escaped"]}"')
        return {key: resolve(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, names) for each in value]
    return value


def _named(name: str, names: Mapping[str, Any]) -> Any:
    if name not in names:
        raise ValueError(f"nothing is named {name!r}; there are {', '.join(sorted(names))}")
    return names[name]


def fault(pattern: Any, value: Any, names: dict[str, Any]) -> str:
    """Returns why a value does not match, empty if it does. Captures count only if all of the pattern matches."""
    captured: dict[str, Any] = {}
    why = _fault(resolve(pattern, names), value, captured, "")
    if not why:
        names.update(captured)
    return why


def _fault(pattern: Any, value: Any, captured: dict[str, Any], path: str) -> str:
    if isinstance(pattern, Mapping):
        if pattern and all(str(key).startswith("$") for key in pattern):
            for key, wanted in pattern.items():
                if why := _condition(key, wanted, value, captured, path):
                    return why
            return ""
        return _object_fault(pattern, value, captured, path)
    if isinstance(pattern, list):
        if not isinstance(value, list) or len(pattern) != len(value):
            return _differs(path, pattern, value) if pattern or value else ""
        for number, (wanted, each) in enumerate(zip(pattern, value, strict=True)):
            if why := _fault(wanted, each, captured, f"{path}[{number}]"):
                return why
        return ""
    if pattern in _EMPTY and value in _EMPTY:
        return ""
    if isinstance(pattern, bool) is not isinstance(value, bool) or pattern != value:
        return _differs(path, pattern, value)
    return ""


def _object_fault(pattern: Mapping[str, Any], value: Any, captured: dict[str, Any], path: str) -> str:
    if not isinstance(value, Mapping):
        return _differs(path, pattern, value)
    for key, wanted in pattern.items():
        if wanted == {} and key not in value:
            return f"{path}.{key} is absent"
        if why := _fault(wanted, value.get(key), captured, f"{path}.{key}"):
            return why
    return ""


def _condition(key: str, wanted: Any, value: Any, captured: dict[str, Any], path: str) -> str:
    holds = True
    match key:
        case "$as":
            captured[wanted] = value
        case "$any":
            holds = value not in _EMPTY
        case "$absent":
            holds = value in _EMPTY
        case "$re":
            holds = isinstance(value, str) and re.search(wanted, value, re.S) is not None
        case "$between":
            holds = isinstance(value, (int, float)) and wanted[0] <= value <= wanted[1]
        case "$size":
            least, most = wanted if isinstance(wanted, list) else (wanted, wanted)
            holds = least <= len(value or ()) <= most
        case "$not":
            holds = bool(_fault(wanted, value, {}, path))
        case "$one_of":
            holds = any(not _fault(each, value, captured, path) for each in wanted)
        case "$has":
            if isinstance(value, str):
                holds = wanted in value
            else:
                holds = any(not _fault(wanted, each, captured, path) for each in value or ())
        case "$json":
            try:
                return _fault(wanted, json.loads(value), captured, f"{path}.$json")
            except (TypeError, ValueError):
                holds = False
        case _:
            raise ValueError(f"unknown condition {key!r}")
    return "" if holds else f"{path or 'value'} is {shown(value)}, not {key} {shown(wanted)}"


def _differs(path: str, pattern: Any, value: Any) -> str:
    return f"{path or 'value'} is {shown(value)}, not {shown(pattern)}"


def shown(value: Any, limit: int = 300) -> str:
    """Returns a value as one line, cut in the middle."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= limit else f"{text[: limit - 60]} ... {text[-50:]}"
