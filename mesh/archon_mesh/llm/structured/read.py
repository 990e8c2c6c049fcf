"""Finds the JSON values in a reply, which may have text or a code block around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from archon.output import read_json
from archon_mesh.llm.text_format.lenient_json import LenientReader, NotJson
from archon_mesh.llm.text_format.sections import without_end_tokens, without_thinking

MAX_REPLY: Final = 1024 * 1024
"""Characters of a reply that is read."""

MAX_VALUES: Final = 20
"""Values of a reply that may be the answer."""


def json_values(text: str) -> list[Any]:
    """Returns the possible JSON values of a reply, best first: the whole reply, then the values in it from the last one
    to the first, and then the text itself.

    Values are read leniently. One that is cut off is left out, unless nothing but its own last bracket is missing.
    """
    text = without_end_tokens(without_thinking(text[:MAX_REPLY])).strip()
    try:
        whole = read_json(text)
    except (ValueError, RecursionError):
        return [*reversed([*_within(text)]), text]
    # Some models write their JSON as a JSON string.
    return [whole, *reversed([*_within(whole)])] if isinstance(whole, str) else [whole]


def with_parsed_texts(value: Any) -> Any:
    """Returns a value in which texts that are JSON objects or lists are read: some models write parts of an answer as
    JSON in a string."""
    if isinstance(value, dict):
        return {key: with_parsed_texts(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_parsed_texts(each) for each in value]
    if not isinstance(value, str) or not value.strip().startswith(("{", "[")):
        return value
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        return value


def _within(text: str) -> Iterator[Any]:
    position = 0
    for _ in range(MAX_VALUES):
        starts = [start for start in (text.find("{", position), text.find("[", position)) if start >= 0]
        if not starts:
            return
        reader, position = LenientReader(text, min(starts)), min(starts) + 1
        try:
            value = reader.read()
        except NotJson as error:
            position = max(error.position, position)
            continue
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if not any(reader.is_unclosed(each) for each in members if isinstance(each, dict | list)):
            yield value
        position = max(reader.position, position)
