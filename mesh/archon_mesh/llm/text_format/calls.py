"""Reads a call in JSON: which keys hold the tool and its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.llm.text_format.lenient_json import LenientReader, NotJson

INPUT: Final = "input"
"""The name of the argument if a call has a text instead of arguments."""

NAME: Final = r"[A-Za-z_][\w./:-]{0,127}"
_NAME = re.compile(NAME)
_TOOL_KEYS: Final = ("tool", "tool_name", "action", "name", "function")
_BARE_TOOL_KEYS: Final = ("tool", "tool_name", "action")
_ARGUMENT_KEYS: Final = (
    "arguments",
    "args",
    "action_input",
    "parameters",
    "params",
    "tool_input",
    "tool_args",
    "input",
)
_NESTED_KEYS: Final = ("function", "action", "tool", "tool_call", "function_call", "tool_calls")
_OTHER_KEYS: Final = ("thought", "reasoning", "type", "id", "tool_call_id", "explanation")
_ANSWER_NAMES: Final = ("finalanswer", "finish")
_NO_TOOLS: Final = ("none", "n/a", "na", "null", "nothing", "tool_name", "tool", "toolname", "name_of_the_tool")
_CLOSERS = re.compile(r"[\s}\])`;.,*'\"]*")


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call that a reply asks for. The tool may be unknown, and the arguments may not fit it."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """An answer that is written as a call."""

    text: str


def is_tool_name(name: str) -> bool:
    """Whether the text can be the name of a tool, and stands for no tool or for any one."""
    return bool(_NAME.fullmatch(name)) and name.lower() not in _NO_TOOLS


def read_call(text: str, *, announced: bool, finished: bool, whole: bool = False) -> ParsedCall | FinalAnswer | None:
    """Returns the call in the JSON at the beginning of a text; None if it has none.

    `announced`: a marker or a tag says that it is a call. `finished`: the text ends where its writer wanted it to.
    `whole`: nothing but closing brackets may follow.
    """
    text = _unescaped(text)
    reader = LenientReader(text, finished=finished)
    try:
        value = reader.read()
    except NotJson:
        return None
    rest_match = _CLOSERS.match(text, reader.position)
    rest = text[rest_match.end() if rest_match else reader.position :]
    # A sentence about the call goes on behind it.
    behind = text[reader.position :].split("\n", 1)[0].strip(" })];`.")
    if (whole and rest) or behind[:1].islower():
        return None
    return _from_value(value, reader, announced, finished)


def read_arguments(tool: str, text: str, *, finished: bool) -> ParsedCall | FinalAnswer | None:
    """Returns the call of a tool whose arguments are the JSON object at the beginning of a text."""
    reader = LenientReader(text, finished=finished)
    try:
        value = reader.read()
    except NotJson:
        return None
    return call_of(tool, value) if finished or not reader.unclosed else None


def call_of(tool: str, arguments: object) -> ParsedCall | FinalAnswer | None:
    """Returns the call of a tool with arguments: an object, JSON or plain text, or None for no arguments."""
    tool = tool.strip().strip("`\"'*[]").removeprefix("functions.")
    if tool.lower().replace("_", "").replace(" ", "") in _ANSWER_NAMES:
        return _answer(arguments)
    if not is_tool_name(tool):
        return None
    if isinstance(arguments, str):
        arguments = _parsed(arguments)
    if arguments is None:
        return ParsedCall(tool, {})
    return ParsedCall(tool, arguments) if isinstance(arguments, dict) else None


def _from_value(
    value: object, reader: LenientReader, announced: bool, finished: bool
) -> ParsedCall | FinalAnswer | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        return None
    fields = {str(key).strip().lower().replace(" ", "_"): member for key, member in value.items()}
    for key in ("final_answer", "finalanswer"):
        if key in fields and not any(name in fields for name in _BARE_TOOL_KEYS):
            return _answer(fields[key])
    for key in _NESTED_KEYS:
        if isinstance(fields.get(key), dict | list):
            return _from_value(fields[key], reader, announced or key != "tool", finished)
    tool_key = next((key for key in _TOOL_KEYS if isinstance(fields.get(key), str)), None)
    if tool_key is None:
        return None
    argument_key = next((key for key in _ARGUMENT_KEYS if key in fields), None)
    if argument_key is None:
        others = fields.keys() - {tool_key, *_OTHER_KEYS}
        is_bare = tool_key in _BARE_TOOL_KEYS and announced and not others
        return call_of(fields[tool_key], None) if is_bare and not reader.is_unclosed(value) else None
    arguments = fields[argument_key]
    is_object = isinstance(arguments, dict)
    if not is_object and (reader.is_unclosed(value) or not announced) and not _is_json(arguments):
        return None
    if is_object and reader.is_unclosed(arguments) and not finished:
        return None
    return call_of(fields[tool_key], arguments)


def _answer(value: object) -> FinalAnswer | None:
    """Returns the answer in a text, or in an object with one member."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    text = value.strip().strip('"') if isinstance(value, str) else "" if value is None else str(value)
    return FinalAnswer(text) if text else None


def _parsed(text: str) -> object:
    """Returns the arguments in a text: an object in JSON, nothing, or the text itself under the name INPUT."""
    text = text.strip().strip("`")
    if text.lower() in ("", "none", "n/a", "null"):
        return None
    if text[0] not in "{[(":
        quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
        return {INPUT: text[1:-1] if quoted else text}
    reader = LenientReader(text)
    try:
        value = reader.read()
    except NotJson:
        return []
    return [] if reader.unclosed else value


def _is_json(value: object) -> bool:
    return isinstance(value, str) and value.strip().startswith("{")


def _unescaped(text: str) -> str:
    """Removes additions of a template or a second encoding to each brace or quote, and adds a missing first brace."""
    text = text.lstrip()
    if re.match(r"\{\s{0,20}\\\"", text):
        return text.replace('\\"', '"')
    if text.startswith("{{"):
        return text.replace("{{", "{").replace("}}", "}")
    return "{" + text if re.match(r"[\"'](?:tool|tool_name|action|name)[\"']\s{0,5}:", text) else text
