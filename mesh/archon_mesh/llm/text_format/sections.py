# ruff: noqa: RUF001 - models write these characters
"""Splits a reply into its sections: the text after each marker, such as `Action:`.

A marker counts at the beginning of a line only, and in a code block only if no prose comes before the block, which
would make it an example.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The kind of a section, named as its marker in the text."""

    PROSE = "prose"
    THOUGHT = "thought"
    ACTION = "action"
    INPUT = "action input"
    ANSWER = "final answer"
    OBSERVATION = "observation"
    TAG = "tag"


@dataclass(slots=True)
class Section:
    """A section and its text, without its marker; of a TAG, with it.

    `finished` says that something follows which shows that the section is complete. `example` marks a call that a line
    before it introduces as an example.
    """

    kind: Kind
    lines: list[str] = field(default_factory=list)
    finished: bool = False
    example: bool = False
    fenced: bool = False

    @property
    def text(self) -> str:
        """The lines of the section, without its marker."""
        return "\n".join(self.lines)


_MARKER = re.compile(
    r"[\s>#*_-]{0,20}(?:\d{1,3}[.)]\s{0,5})?[*_]{0,3}(?:assistant:\s{0,5}[*_]{0,3})?"
    r"(thought|action[ _]?input|action|final[ _]?answer|observation|question"
    r"|tool[ _]input|tool|input|arguments|parameters|args)"
    r"(?:\s{0,3}\d{1,3})?\s{0,3}[*_`]{0,3}\s{0,3}:[*_]{0,3}",
    re.I,
)
_KINDS: Final = {
    "thought": Kind.THOUGHT,
    "question": Kind.THOUGHT,
    "action": Kind.ACTION,
    "tool": Kind.ACTION,
    "actioninput": Kind.INPUT,
    "toolinput": Kind.INPUT,
    "input": Kind.INPUT,
    "arguments": Kind.INPUT,
    "parameters": Kind.INPUT,
    "args": Kind.INPUT,
    "finalanswer": Kind.ANSWER,
    "observation": Kind.OBSERVATION,
}
_SECONDARY: Final = ("tool", "toolinput", "input", "arguments", "parameters", "args")
"""Markers that are keys of JSON, too."""

_TAG = re.compile(
    r"\s{0,20}(?:<(?:\w{1,20}:)?(?:tool_call|tool|action|function_calls?|functioncall|invoke|final_answer)\b"
    r"[^<>\n]{0,200}>"
    r"|<function=|<\|(?:python_tag|tool_call|tool_calls_section_begin|tool_call_begin|START_ACTION|channel)\|>"
    r"|<｜tool▁calls?▁begin｜>|\[TOOL_CALLS\]|functools\[)"
)
_WITHIN_THOUGHT = re.compile(
    r"[.!?;]\s{1,5}[*_]{0,2}(?:(action)\s?:\s{0,5}(?=\{)|(final[ _]?answer)\s?:[*_]{0,2}\s)", re.I
)
_EXAMPLE = re.compile(
    r"\b(?:examples?|format|syntax|template|like this|for instance|e\.g\.|such as|looks like)\b", re.I
)
_THINKING: Final = ("think", "thinking", "reasoning")
_END_TOKENS: Final = (
    *("</s>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>", "<|call|>"),
    *("<|END_ACTION|>", "<|/tool_call|>", "<end_of_turn>", "PAUSE"),
)

_MAX_END_TOKENS: Final = 5


def marker_of(line: str) -> tuple[Kind, str, str] | None:
    """Returns the kind of the marker at the beginning of a line, its word, and the rest of the line; or None."""
    if match := _MARKER.match(line):
        word = match[1].lower().replace(" ", "").replace("_", "")
        return _KINDS[word], word, line[match.end() :]
    return (Kind.TAG, "", line) if _TAG.match(line) else None


def without_thinking(text: str) -> str:
    """Returns the reply without the thinking at its beginning."""
    stripped = text.lstrip()
    for tag in _THINKING:
        opening, closing = f"<{tag}>", f"</{tag}>"
        if stripped.startswith(opening):
            _, closed, rest = stripped.partition(closing)
            return rest if closed else ""
        before, closed, rest = text.partition(f"{closing}\n")
        if closed and opening not in before:
            return rest
    return text


def without_end_tokens(text: str) -> str:
    """Returns the reply with the end of a line instead of the tokens with which models end their turn."""
    for _ in range(_MAX_END_TOKENS):
        token = next((token for token in _END_TOKENS if text.rstrip().endswith(token)), "")
        if not token:
            break
        text = text.rstrip()[: -len(token)] + "\n"
    return text


def sections(text: str) -> list[Section]:
    """Returns the sections of a reply, in their order."""
    splitter = _Splitter()
    for line in text.split("\n"):
        splitter.add(line)
    return splitter.sections


class _Splitter:
    def __init__(self) -> None:
        self.sections = [Section(Kind.PROSE)]
        self._in_fence = self._is_opaque = False
        self._fence = ""
        self._last_line = ""

    def add(self, line: str) -> None:
        current = self.sections[-1]
        if not line or line.isspace():
            current.lines.append(line)
            return
        # A block ends with the fence that it began with; the other one is a part of its text.
        fence = self._fence if self._in_fence else "~~~" if line.count("~~~") % 2 else "```"
        has_fence = line.count(fence) % 2 == 1
        if has_fence and line.lstrip().startswith(fence):
            self._in_fence, self._fence, has_fence = not self._in_fence, fence, False
            has_prose = current.kind is Kind.PROSE and any(each.strip() for each in current.lines)
            self._is_opaque = has_prose or current.kind not in (Kind.PROSE, Kind.THOUGHT)
            if not self._in_fence and current.fenced:
                current.finished = True
                self.sections.append(Section(Kind.PROSE))
                return
        marker = None if self._in_fence and self._is_opaque else marker_of(line)
        if marker is not None and self._counts(marker[0], marker[1], current):
            self._begin(marker[0], marker[2], current)
            # A block that begins behind a marker belongs to it.
            if has_fence:
                self._in_fence = self._is_opaque = True
                self._fence = fence
        else:
            current.lines.append(line)
        self._last_line = line.strip()

    def _counts(self, kind: Kind, word: str, current: Section) -> bool:
        """Whether the marker begins a section, and is no key of the JSON of the current one, or a part of its tag."""
        if kind is Kind.TAG and current.kind in (Kind.TAG, Kind.ANSWER, Kind.ACTION):
            return current.kind is Kind.TAG and _is_complete_tag(current)
        if word not in _SECONDARY:
            return True
        if current.kind is not Kind.ACTION:
            return kind is Kind.ACTION and current.kind is not Kind.ANSWER
        text = current.text.strip()
        return kind is Kind.INPUT and bool(text) and text[0] not in "{[`~<"

    def _begin(self, kind: Kind, rest: str, current: Section) -> None:
        current.finished = True
        example = (
            current.kind is Kind.PROSE and self._last_line.endswith(":") and bool(_EXAMPLE.search(self._last_line))
        )
        lines = [rest]
        if kind is Kind.THOUGHT and (match := _WITHIN_THOUGHT.search(rest)):
            self.sections.append(Section(Kind.THOUGHT, [rest[: match.start() + 1]], True, False, self._in_fence))
            kind, lines = Kind.ACTION if match[1] else Kind.ANSWER, [rest[match.end() :]]
        self.sections.append(Section(kind, lines, False, example, self._in_fence))


def _is_complete_tag(section: Section) -> bool:
    return "</tool_call>" in section.lines[-1] or "</invoke>" in section.lines[-1]
