"""The arguments of a tool that is a role: a goal, or the values of its template, with files."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.types.part import Part

MAX_FILES: Final = 32
MAX_SESSION: Final = 256
"""Files of a call, and characters of the name of a conversation."""

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]{0,63})\}")
_OWN: Final = ("files", "session")
"""Arguments that are no values of a template."""

_FILE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "media_type": {"type": "string", "description": "Such as image/png."},
        "data": {"type": "string", "description": "The content in base64."},
        "url": {"type": "string", "description": "The address of the content, in place of data."},
    },
}


def variables_of(template: str) -> Sequence[str]:
    """Returns the names of the values that a template takes, each once, in order."""
    return tuple(name for name in dict.fromkeys(_VARIABLE.findall(template)) if name not in _OWN)


def goal_schema(template: str) -> dict[str, Any]:
    """Returns the schema of the arguments of a role with this template of a good input, which may be empty."""
    names = variables_of(template)
    goal = "The task in plain words, with all that is needed to do it."
    if template:
        goal += f" By default: {template}"
    properties: dict[str, Any] = {"goal": {"type": "string", "description": goal[:1_000]}}
    for name in names:
        properties.setdefault(name, {"type": ["string", "number", "boolean"], "description": f"Stands for {{{name}}}."})
    properties["files"] = {"type": "array", "items": dict(_FILE), "maxItems": MAX_FILES}
    properties["session"] = {
        "type": "string",
        "maxLength": MAX_SESSION,
        "description": "A name of the conversation: calls with the same one continue it.",
    }
    return {"type": "object", "properties": properties, "required": [] if template else ["goal"]}


def goal_of(template: str, arguments: Mapping[str, Any]) -> list[Part]:
    """Returns the goal of a call. Raises InvalidArgument if the arguments give none, or have unknown names."""
    names = variables_of(template)
    if unknown := sorted(set(arguments) - {"goal", *names, *_OWN}):
        raise InvalidArgument(f"unknown argument {unknown[0][:100]!r}")
    goal = arguments.get("goal", "")
    if not isinstance(goal, str):
        raise InvalidArgument("the argument goal is a text")
    goal = goal or render(template, arguments)
    return [Part(text=goal), *_files(arguments.get("files"))] if goal else _only_files(arguments.get("files"))


def render(template: str, values: Mapping[str, Any]) -> str:
    """Returns a template with its values. Raises InvalidArgument if one is missing."""
    if missing := [name for name in variables_of(template) if name not in values]:
        raise InvalidArgument(f"give the argument goal, or all of: {', '.join(missing)}")
    return _VARIABLE.sub(lambda found: str(values.get(found[1], found[0])), template)


def session_of(arguments: Mapping[str, Any]) -> str:
    """Returns the name of the conversation, empty without one. Raises InvalidArgument."""
    session = arguments.get("session", "")
    if not isinstance(session, str) or len(session) > MAX_SESSION:
        raise InvalidArgument(f"the argument session is a text of at most {MAX_SESSION} characters")
    return session


def _only_files(files: Any) -> list[Part]:
    parts = _files(files)
    if not parts:
        raise InvalidArgument("the argument goal is missing")
    return parts


def _files(files: Any) -> list[Part]:
    if files is None:
        return []
    if not isinstance(files, list) or len(files) > MAX_FILES:
        raise InvalidArgument(f"the argument files is a list of at most {MAX_FILES} files")
    return [_file(file) for file in files]


def _file(file: Any) -> Part:
    fields = {key: value for key, value in file.items() if isinstance(value, str)} if isinstance(file, Mapping) else {}
    name = fields.get("name", "").replace("\\", "/").rpartition("/")[2]
    kind = fields.get("media_type", "")
    if ("data" in fields) == ("url" in fields):
        raise InvalidArgument("a file has either data, in base64, or a url")
    if "url" in fields:
        return Part(url=fields["url"], filename=name, media_type=kind)
    try:
        return Part(raw=base64.b64decode(fields["data"], validate=True), filename=name, media_type=kind)
    except (ValueError, binascii.Error):
        raise InvalidArgument("the data of a file is not base64") from None
