"""Reads a reply in the text format: a thought, and then a call or a final answer.

Tests hold the parser to a corpus of replies of many models, whose README says which of them can be read. A reply that
cannot be read is an error: no call is ever made up.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import Any, Final

from archon_mesh.llm.text_format.calls import NAME, FinalAnswer, ParsedCall, call_of, read_arguments, read_call
from archon_mesh.llm.text_format.errors import ParsingError
from archon_mesh.llm.text_format.lenient_json import LenientReader, NotJson
from archon_mesh.llm.text_format.sections import Kind, Section, sections, without_end_tokens, without_thinking
from archon_mesh.llm.text_format.tags import read_tag

MAX_REPLY: Final = 1024 * 1024
"""Characters of a reply that is parsed."""

MAX_CANDIDATES: Final = 20
"""Places of a text at which JSON is looked for."""

_BEFORE_JSON = re.compile(
    r"\s*(?:(?:call|json)\b\s*|\$\w{1,20}\s*=\s*|(?:```|~~~)[ \t]*\w{0,10}\s*|[`*]\s*){0,5}"
    r"(?:\$\w{1,20}\s*=\s*)?(?=[{\[\"'])"
)
_BRACKET = re.compile(r"[{\[]")
_CLOSING_FENCE = re.compile(r"^\s{0,20}(?:```|~~~)", re.M)
_ACTION_LINE = re.compile(
    rf"[`\"'*\[\s]{{0,5}}(?:the\s)?({NAME}?)(?:\stool)?(?:\(\))?[`\"'*\]]{{0,5}}[.,]?"
    r"(?:\s{0,5}(?:$|(?=\{)|action[ _]input\s?:(?=\s)))",
    re.I,
)
_CALL_LIKE = re.compile(r"""^\s*[{\[<]|["'](?:tool|tool_name|name|action|arguments|args)["']\s*:""")
_FUNCTION = re.compile(rf"\s{{0,5}}`?({NAME})\((.{{0,20000}})\)[`.;]?\s*$", re.S)


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The content of a reply: a call or a final answer, and the thought before it."""

    thought: str
    call: ParsedCall | None = None
    final_answer: str | None = None


def parse_llm_action_response(text: str) -> ParsedReply:
    """Returns the call or the final answer of a reply. An answer wins over a call; of several calls the first counts.

    A call is `Action: {"tool": ..., "arguments": {...}}`; many deviations from it are read, too. Raises ParsingError if
    the reply has neither, or is longer than MAX_REPLY.
    """
    if len(text) > MAX_REPLY:
        raise ParsingError(f"the reply has {len(text)} characters; at most {MAX_REPLY} are read")
    found = sections(without_end_tokens(without_thinking(text.replace("\r\n", "\n"))))
    thought = "\n".join(section.text.strip() for section in found if section.kind is Kind.THOUGHT).strip()
    for section in found:
        if section.kind is Kind.ANSWER and (answer := _answer_of(section)):
            return ParsedReply(thought, final_answer=answer)
    result = _first_call(found) or _bare_call(found)
    if isinstance(result, FinalAnswer):
        return ParsedReply(thought, final_answer=result.text)
    if result is None:
        raise ParsingError("the reply has no call and no final answer that can be read")
    return ParsedReply(thought, result)


def prose_of(text: str) -> str:
    """Returns a reply in which nothing looks like a call, without its thinking; empty for any other."""
    prose = without_end_tokens(without_thinking(text[:MAX_REPLY].replace("\r\n", "\n"))).strip()
    is_prose = all(section.kind is Kind.PROSE for section in sections(prose)) and not _CALL_LIKE.search(prose)
    return prose if is_prose else ""


def extract_json_from_text(text: str) -> Any:
    """Returns the first JSON object or array in a text, read leniently; its own last bracket may be missing.

    Raises ParsingError if there is none at the first MAX_CANDIDATES brackets, in the first MAX_REPLY characters.
    """
    position, text = 0, text[:MAX_REPLY]
    for _ in range(MAX_CANDIDATES):
        match = _BRACKET.search(text, position)
        if match is None:
            break
        reader = LenientReader(text, match.start())
        try:
            value = reader.read()
        except NotJson as error:
            position = max(error.position, match.end())
            continue
        if not reader.unclosed or (value and not any(reader.is_unclosed(each) for each in _inner(value))):
            return value
        position = match.end()
    raise ParsingError("the text has no JSON object or array that can be read")


def _inner(value: Any) -> list[Any]:
    members = value.values() if isinstance(value, dict) else value
    return [each for each in members if isinstance(each, dict | list)]


def _answer_of(section: Section) -> str:
    text = section.text
    if section.fenced and (fence := _CLOSING_FENCE.search(text)):
        text = text[: fence.start()]
    text = text.strip()
    return text[:-2].rstrip() if text.endswith("**") and text.count("**") == 1 else text


def _first_call(found: list[Section]) -> ParsedCall | FinalAnswer | None:
    """Returns the call of the first section that announces one."""
    for index, section in enumerate(found):
        if section.example:
            continue
        if section.kind is Kind.TAG:
            return read_tag(section.text, finished=section.finished)
        if section.kind is Kind.ACTION:
            following = found[index + 1] if index + 1 < len(found) else None
            return _call_of_action(section, following)
    return None


def _call_of_action(section: Section, following: Section | None) -> ParsedCall | FinalAnswer | None:
    text = section.text
    if text.lstrip().startswith("<"):
        return read_tag(text.lstrip(), finished=section.finished)
    if start := _BEFORE_JSON.match(text):
        call = _json_behind(text, start.end(), section.finished)
        if call is not None or text[start.end()] == "{":
            return call
    has_input = following is not None and following.kind is Kind.INPUT
    if not has_input and (call := _function_call(text)):
        return call
    if following is not None and has_input and text.strip(' \n`*"').lower() in ("final answer", "final_answer"):
        return _call_with_input("final_answer", following.text, following.finished)
    name = _ACTION_LINE.match(text.strip().split("\n", 1)[0])
    if name is None:
        return None
    rest = text.strip()[name.end() :].strip()
    if following is not None and has_input and not rest:
        return _call_with_input(name[1], following.text, following.finished)
    if rest and (rest[0] == "{" or name[0].rstrip().endswith(":")):
        return _call_with_input(name[1], rest, section.finished)
    return None


def _json_behind(text: str, position: int, finished: bool) -> ParsedCall | FinalAnswer | None:
    body = text[position:]
    if closing := _CLOSING_FENCE.search(body):
        body, finished = body[: closing.start()], True
    return read_call(body, announced=True, finished=finished)


def _call_with_input(name: str, text: str, finished: bool) -> ParsedCall | FinalAnswer | None:
    """Returns the call in the two-line form. A plain text ends with its line."""
    start = _BEFORE_JSON.match(text)
    if start and text[start.end()] == "{":
        body = text[start.end() :]
        if closing := _CLOSING_FENCE.search(body):
            body, finished = body[: closing.start()], True
        return read_arguments(name, body, finished=finished)
    line, is_ended, rest = text.strip(" \t").partition("\n")
    if not line.strip():
        line, is_ended, _ = rest.partition("\n")
    if line.lstrip().startswith(("```", "~~~")) or not line.strip(" `~*"):
        return None
    quoted = len(line.strip()) > 1 and line.strip()[0] == line.strip()[-1] == '"'
    return call_of(name, line) if is_ended or finished or quoted else None


def _function_call(text: str) -> ParsedCall | FinalAnswer | None:
    """Returns the call in `name(key=value)` or `name({...})`."""
    match = _FUNCTION.fullmatch(text.strip())
    if match is None:
        return None
    inner = match[2].strip()
    if inner.startswith("{"):
        return read_call(f'{{"tool": "{match[1]}", "arguments": {inner}}}', announced=True, finished=False)
    try:
        with warnings.catch_warnings():
            # Python's warnings about a model's escapes are of no interest to the operator.
            warnings.simplefilter("ignore")
            expression = ast.parse(f"f({inner})", mode="eval").body
        if not isinstance(expression, ast.Call) or expression.args:
            return None
        return call_of(
            match[1], {each.arg: ast.literal_eval(each.value) for each in expression.keywords if each.arg is not None}
        )
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _bare_call(found: list[Section]) -> ParsedCall | FinalAnswer | None:
    """Returns the call of a reply that is nothing but its JSON, behind a thought at most."""
    parts = [section for section in found if section.text.strip()]
    if not parts or len(parts) > 2 or any(part.kind not in (Kind.PROSE, Kind.THOUGHT) for part in parts):
        return None
    text = parts[-1].text
    if parts[-1].kind is Kind.THOUGHT:
        start = re.search(r"^\s{0,8}(?=[{\[`~])", text, re.M)
        if start is None or start.start() == 0:
            return None
        text = text[start.start() :]
    elif len(parts) == 2:
        return None
    start = _BEFORE_JSON.match(text)
    if start is None or text[start.end()] not in "{[":
        return None
    body, finished = text[start.end() :].rstrip(), found[-1].finished
    if body.endswith(("```", "~~~")):
        body, finished = body[:-3], True
    return read_call(body, announced=False, finished=finished, whole=True)
