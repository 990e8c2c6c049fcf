# ruff: noqa: RUF001 - models write these characters
"""Reads calls in the wrappers that models were trained on, such as `<tool_call>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from archon.json_text import json_or
from archon_mesh.llm.text_format.calls import NAME, FinalAnswer, ParsedCall, call_of, read_arguments, read_call

_ANSWER = re.compile(r"\s*<final_answer>(.*?)(?:</final_answer>|$)", re.S)
_NAMED: Final = (
    re.compile(rf"<function=({NAME})>"),
    re.compile(rf'<invoke name="({NAME})">'),
    re.compile(rf"<tool_call>({NAME})\s{{0,5}}(?=<arg_key>)"),
    re.compile(rf"\[TOOL_CALLS\]\s{{0,5}}({NAME})(?:\[ARGS\])?\s{{0,5}}(?=\{{)"),
    re.compile(rf"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?({NAME})(?:<｜tool▁sep｜>)?\s{{0,5}}"),
    re.compile(rf"<\|tool_call_begin\|>(?:functions\.)?({NAME}?)(?::\d{{1,4}})?<\|tool_call_argument_begin\|>"),
    re.compile(rf"to=(?:functions\.)?({NAME})[^<\n]{{0,20}}(?:<\|constrain\|>json)?<\|message\|>"),
)
_OPENING = re.compile(
    r"\s*(?:<(?:\w{1,20}:)?[a-z_]{1,20}>|<\|[\w]{1,30}\|>|\[TOOL_CALLS\]|functools(?=\[))\s*(?:(?:```|~~~)\w{0,10}\s*)?"
)
_PARAMETERS: Final = (
    re.compile(r"<parameter(?:=([\w.-]{1,128})| name=\"([\w.-]{1,128})\")>"),
    re.compile(r"<arg_key>([\w.-]{1,128})</arg_key>\s{0,20}<arg_value>"),
)
_CLOSING: Final = ("</parameter>", "</arg_value>")
_END = re.compile(r"</(?:function|invoke|tool_call)>")
_CLOSING_LINE = re.compile(r"^\s{0,20}(?:</|```|~~~|<\|)", re.M)


def read_tag(text: str, *, finished: bool) -> ParsedCall | FinalAnswer | None:
    """Returns the call in the wrapper at the beginning of a text; None if it has none."""
    if match := _ANSWER.match(text):
        return FinalAnswer(match[1].strip()) if match[1].strip() else None
    for pattern in _NAMED:
        # The name stands at the beginning, behind other tags at most.
        if (match := pattern.search(text, 0, 400)) and not text[: match.start()].partition("{")[1]:
            return _named(match[1], text[match.end() :], finished)
    opening = _OPENING.match(text)
    return _in_json(text[opening.end() :], finished) if opening else None


def _named(name: str, text: str, finished: bool) -> ParsedCall | FinalAnswer | None:
    text = re.sub(r"\A\s*(?:```|~~~)\w{0,10}\s*", "", text)
    if text.lstrip().startswith("{"):
        body, is_ended = _cut(text.lstrip())
        return read_arguments(name, body, finished=finished or is_ended)
    end = _END.search(text)
    if end is None:
        return None
    return call_of(name, dict(_parameters(text[: end.start()])))


def _in_json(text: str, finished: bool) -> ParsedCall | FinalAnswer | None:
    body, is_ended = _cut(text)
    return read_call(body, announced=True, finished=finished or is_ended) if body[:1] in ("{", "[") else None


def _cut(text: str) -> tuple[str, bool]:
    """Returns the text before the line that closes its wrapper, and whether there is one."""
    closing = _CLOSING_LINE.search(text)
    return (text[: closing.start()], True) if closing else (text, False)


def _parameters(text: str) -> Iterator[tuple[str, object]]:
    for pattern, closing in zip(_PARAMETERS, _CLOSING, strict=True):
        position = 0
        while match := pattern.search(text, position):
            end = text.find(closing, match.end())
            if end < 0:
                return
            name = next(filter(None, match.groups()))
            yield name, _typed(text[match.end() : end].removeprefix("\n").removesuffix("\n"))
            position = end


def _typed(text: str) -> object:
    """Returns a number, a literal, an object or an array as such; everything else is a text."""
    value = json_or(text, text)
    return text if isinstance(value, str) else value
