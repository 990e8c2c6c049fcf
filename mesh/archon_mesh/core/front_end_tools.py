"""Tools that a front end executes for a run: they are metadata of the run, and a call is a question with a subject."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

KEY: Final = "dev.archon/front-end-tools"
"""Metadata of a run: the tools as JSON, in parts `KEY.0`, `KEY.1` and so on, because the size of a value is limited."""

PART_SIZE: Final = 4_000
"""Characters of a part."""

MAX_PARTS: Final = 12

_TOOL: Final = "front_end_tool"
_ARGUMENTS: Final = "arguments"
"""Keys of the subject of a question that is a call."""

_RESULT: Final = "result"
_ERROR: Final = "error"
"""Keys of an answer that is the result of a call."""


@dataclass(frozen=True, slots=True)
class FrontEndToolSpec:
    """A tool of a front end. `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FrontEndCall:
    """A call of such a tool; `arguments_json` is one JSON object."""

    name: str
    arguments_json: str


def to_metadata(tools: Sequence[FrontEndToolSpec]) -> dict[str, str]:
    """Returns the metadata of a run that offers tools. Raises ValueError if they are too large."""
    if not tools:
        return {}
    listed = [{"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools]
    text = json.dumps(listed, separators=(",", ":"))
    parts = [text[start : start + PART_SIZE] for start in range(0, len(text), PART_SIZE)]
    if len(parts) > MAX_PARTS:
        raise ValueError(f"the tools have {len(text):,} characters as JSON: at most {MAX_PARTS * PART_SIZE:,}")
    return {f"{KEY}.{number}": part for number, part in enumerate(parts)}


def from_metadata(metadata: Mapping[str, str]) -> list[FrontEndToolSpec]:
    """Returns the tools that a run offers; none if its metadata has none, or others have changed it."""
    try:
        listed = json.loads("".join(_parts(metadata)) or "[]")
        return [FrontEndToolSpec(each["name"], each["description"], dict(each["parameters"])) for each in listed]
    except (ValueError, TypeError, KeyError):
        return []


def _parts(metadata: Mapping[str, str]) -> Iterable[str]:
    for number in count():
        part = metadata.get(f"{KEY}.{number}")
        if part is None:
            return
        yield part


def to_subject(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the subject of the question that is a call."""
    return {_TOOL: name, _ARGUMENTS: dict(arguments)}


def from_subject(subject: Mapping[str, Any] | None) -> FrontEndCall | None:
    """Returns the call that a question is by its subject; None if it is another question."""
    name, arguments = (subject or {}).get(_TOOL), (subject or {}).get(_ARGUMENTS)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return FrontEndCall(name, json.dumps(arguments, ensure_ascii=False))


def to_answer_json(content: str, error: str = "") -> str:
    """Returns the answer to a call: its result, or with an `error` the failure."""
    return json.dumps({_ERROR: error} if error else {_RESULT: content}, ensure_ascii=False)


def from_answer(text: str) -> tuple[str, str]:
    """Returns the result and the error that an answer has. A person may have answered in place of the front end: a text
    is a result."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return text, ""
    if isinstance(answer, dict) and len(answer) == 1:
        if isinstance(error := answer.get(_ERROR), str):
            return "", error
        if isinstance(result := answer.get(_RESULT), str):
            return result, ""
    return text, ""
