"""Mistakes in a file, described in words of its own: each with its key, and the word that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import pydantic
from pydantic_core import ErrorDetails

from archon.identifiers import capability_fault, role_fault, version_fault
from archon_mesh.declared.document import Document, Key
from archon_mesh.declared.rule_part import RulePart
from archon_mesh.declared.schema import (
    CAPABILITY_PATTERN,
    IMPORT_PATTERN,
    KEYS,
    NAME_PATTERN,
    OPTIONAL_NAME_PATTERN,
    OPTIONAL_ROLE_PATTERN,
    ROLE_PATTERN,
    VERSION_PATTERN,
)

_KINDS: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "string_too_short": "must not be empty",
    "string_too_long": "is too long",
    "too_long": "has too many entries",
    "too_short": "must not be empty",
}
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = {
    "greater_than": ("gt", "must be greater than {}"),
    "greater_than_equal": ("ge", "must be at least {}"),
    "less_than": ("lt", "must be less than {}"),
    "less_than_equal": ("le", "must be at most {}"),
}
_ALL_KEYS: Final = (*KEYS, *RulePart.model_fields)
_NAME: Final = "must be a name: letters, digits, - and _, starting with a letter"
_PATTERNS: Final[Mapping[str, str]] = {
    IMPORT_PATTERN: "must be an import path: a module, a colon and a name in it, such as my_tools:search",
    NAME_PATTERN: _NAME,
    OPTIONAL_NAME_PATTERN: _NAME,
}
_FAULTS: Final[Mapping[str, Callable[[str], str]]] = {
    ROLE_PATTERN: role_fault,
    OPTIONAL_ROLE_PATTERN: role_fault,
    CAPABILITY_PATTERN: capability_fault,
    VERSION_PATTERN: version_fault,
}


def mistakes(
    document: Document, error: pydantic.ValidationError, keys: Sequence[str] = _ALL_KEYS
) -> Iterator[tuple[Key, str]]:
    """Yields the key and the mistake of each error, in the order of the file's lines, one for each key. `keys` are
    those that the file may have."""
    found: dict[Key, str] = {}
    for each in error.errors():
        found.setdefault(_key_of(document, each["loc"]), _text(each, keys))
    yield from sorted(found.items(), key=lambda mistake: document.line(mistake[0]))


def _text(error: ErrorDetails, keys: Sequence[str]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return f"is not a key here{_meant(str(error['loc'][-1]), keys)}"
    if kind == "literal_error":
        allowed = str(context["expected"]).replace("'", "")
        return f"must be {allowed}{_meant(str(error['input']), allowed.replace(' or ', ', ').split(', '))}"
    if kind == "string_pattern_mismatch":
        pattern = str(context["pattern"])
        if (fault := _FAULTS.get(pattern)) is not None:
            return f"is an {fault(str(error['input']))}"
        return _PATTERNS.get(pattern, f"does not match {pattern}")
    if kind in _BOUNDS:
        name, text = _BOUNDS[kind]
        return text.format(context[name])
    return _KINDS.get(kind) or _own(error["msg"])


def _own(message: str) -> str:
    """The message of a check of the schema's own."""
    text = message.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _meant(given: str, known: Sequence[str]) -> str:
    close = get_close_matches(given, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _key_of(document: Document, loc: Sequence[str | int]) -> Key:
    """Returns the key of a pydantic location, without the steps that pydantic inserts for the members of a union."""
    key: list[str | int] = []
    value: Any = document.value
    for step in loc:
        exists = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        )
        if exists:
            value = value[step]
            key.append(step)
        elif step == loc[-1] and isinstance(value, dict):
            key.append(step)  # a missing key
    return tuple(key)
