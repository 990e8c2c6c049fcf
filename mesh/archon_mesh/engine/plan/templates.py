"""Templates in the arguments of subtasks: `{key}` stands for a value that is known when the subtask starts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from archon.json_text import json_or
from archon_mesh.engine.plan.errors import ArgumentsTooLarge, MissingKey
from archon_mesh.engine.plan.task import Task

MAX_DEPTH: Final = 32
"""Levels of nesting of arguments, and steps of a path into a result."""

MAX_CHARACTERS: Final = 1024 * 1024
"""Characters of the texts of a subtask's arguments, after their templates are filled."""

MAX_KEY: Final = 200
"""Characters of a key."""

_TOKEN: Final = re.compile(rf"\{{\{{|\}}\}}|\{{([^{{}}]{{1,{MAX_KEY}}})\}}")
_LOOKS_LIKE_KEY: Final = re.compile(r"[\w-]+(?:\.[\w-]+)*")
_BRACE: Final = re.compile(r"[{}]")
_MISSING: Final = object()


def fill_arguments(args: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments with each template `{key}` replaced by a value.

    A key is one of `results`, or a path into one whose value is a JSON object or array, as a value or as text:
    `flight.price`, `flights.0.price`. An argument that is exactly one template keeps the type of the value; within a
    text, values that are no texts are written as JSON. `{{` is a brace, and so is the `}}` that closes it; braces
    around anything that does not look like a key, such as JSON, stay as they are. Keys of objects are not templates.

    Raises MissingKey, and ArgumentsTooLarge if the arguments have more than MAX_DEPTH levels, or filled more than
    MAX_CHARACTERS characters.
    """
    room = MAX_CHARACTERS

    def fill(text: str) -> Any:
        nonlocal room
        filled = _filled(text, results, room)
        if (size := _size(filled)) > room:
            raise ArgumentsTooLarge(f"the arguments of the subtask have more than {MAX_CHARACTERS:,} characters")
        room -= size
        return filled

    return {key: _mapped(value, fill, 1) for key, value in args.items()}


def escaped(value: Any) -> Any:
    """Returns a value in which no text in braces is a template of the plan: `fill_arguments` gives it back."""
    if isinstance(value, Mapping):
        return {key: escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escaped(item) for item in value]
    if not isinstance(value, str):
        return value
    opened = 0

    def doubled(match: re.Match[str]) -> str:
        nonlocal opened
        if match[0] == "{":
            opened += 1
            return "{{"
        # A closing brace is read as two only after an opening one.
        opened, is_pair = max(0, opened - 1), opened > 0
        return "}}" if is_pair else "}"

    return _BRACE.sub(doubled, value)


def template_values(task: Task) -> dict[str, Any]:
    """Returns the values for templates: the task's context, and the results of completed subtasks, which win."""
    results = {subtask.id: subtask.result for subtask in task.subtasks if subtask.id in task.completed_ids}
    return {**task.context, **results}


def template_keys(args: Mapping[str, Any], known: Collection[str] = ()) -> Iterator[str]:
    """Yields the keys of the templates in the arguments, in order. Any text in braces is a key if it is one of `known`,
    or a path that begins with one. Raises ArgumentsTooLarge if the arguments are too deep."""
    for text in _texts(args, 0):
        for match in _TOKEN.finditer(text):
            if match[1] and is_key(match[1], known):
                yield match[1]


def is_key(text: str, known: Collection[str]) -> bool:
    """Tells whether a text in braces is a template."""
    return _LOOKS_LIKE_KEY.fullmatch(text) is not None or root_of(text, known) is not None


def root_of(key: str, known: Collection[str]) -> str | None:
    """Returns the longest one of the known names that is the key or the beginning of its path, or None."""
    end = len(key)
    while end > 0:
        if key[:end] in known:
            return key[:end]
        end = key.rfind(".", 0, end)
    return None


def replace_keys(args: Mapping[str, Any], known: Collection[str], replace: Callable[[str], str]) -> dict[str, Any]:
    """Returns the arguments with each whole template replaced by a text: `replace` gets its key."""

    def replaced(text: str) -> str:
        return _TOKEN.sub(
            lambda match: replace(match[1]) if match[1] and is_key(match[1], known) else match[0],
            text,
        )

    return {key: _mapped(value, replaced, 1) for key, value in args.items()}


def literal(key: str) -> str:
    """Returns the template with a key as literal text."""
    return f"{{{{{key}}}}}"


def _filled(text: str, results: Mapping[str, Any], room: int) -> Any:
    if (whole := _TOKEN.fullmatch(text)) and whole[1] and is_key(whole[1], results):
        return _value(whole[1], results)
    pieces: list[str] = []
    position, size, escapes = 0, 0, 0
    for match in _TOKEN.finditer(text):
        piece = match[0]
        if piece == "{{":
            piece, escapes = "{", escapes + 1
        elif piece == "}}" and escapes:
            piece, escapes = "}", escapes - 1
        elif match[1] and is_key(match[1], results):
            piece = as_text(_value(match[1], results))
        pieces += [text[position : match.start()], piece]
        position = match.end()
        size += len(piece)
        if size > room:
            raise ArgumentsTooLarge(f"the arguments of the subtask have more than {MAX_CHARACTERS:,} characters")
    return "".join([*pieces, text[position:]])


def as_text(value: Any) -> str:
    """Returns a result as it stands in a text: a text unchanged, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _value(key: str, results: Mapping[str, Any]) -> Any:
    root = root_of(key, results)
    if root is None:
        raise MissingKey(key)
    value = results[root]
    path = key[len(root) + 1 :].split(".") if len(key) > len(root) else []
    if len(path) > MAX_DEPTH:
        raise MissingKey(key)
    if path and isinstance(value, str):
        value = json_or(value)
    for step in path:
        value = _step(value, step)
        if value is _MISSING:
            raise MissingKey(key)
    return value


def _step(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, _MISSING)
    if isinstance(value, (list, tuple)) and step.isascii() and step.isdigit() and len(step) < 10:
        index = int(step)
        return value[index] if index < len(value) else _MISSING
    return _MISSING


def _mapped(value: Any, change: Callable[[str], Any], depth: int) -> Any:
    _check_depth(depth)
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(item, change, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(item, change, depth + 1) for item in value]
    return value


def _texts(value: Any, depth: int) -> Iterator[str]:
    _check_depth(depth)
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, depth + 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ArgumentsTooLarge(f"the arguments of the subtask have more than {MAX_DEPTH} levels")


def _size(value: Any) -> int:
    """Returns the characters of a filled value, estimated from below for nested ones."""
    return sum(len(text) for text in _texts(value, 0)) if not isinstance(value, str) else len(value)
