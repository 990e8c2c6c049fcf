"""Advice about a recorded prompt: one line for each section that is long, repeated, cut or missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from archon_services.cli.render.prompt_sections import LABELS, TOOLS, Prompt, Section

LONG_TOKENS: Final = 2_000
LONG_SHARE: Final = 0.3
"""Tokens of a section, and its part of the prompt, from which on it is long."""

_SHORTEN: Final = {
    LABELS["system_prompt"]: "shorten the system prompt, or move rarely needed parts into a tool or the memory",
    LABELS["session_history"]: "let a compaction summarise it (`window` of the memory, ContextCompactionMiddleware)",
    LABELS["summary"]: "let the compaction keep less, or begin another session",
    LABELS["memory"]: "lower `limit` or `budget` of the memory, or raise its `threshold`",
    LABELS["input"]: "ask for less at once, or let the agent read long texts with a tool",
    LABELS["step"]: "give the agent smaller tasks, or let a compaction summarise earlier steps",
    LABELS["tool_result"]: "have tools return less: a filter among their arguments, or `max_output_bytes`",
    LABELS["hook"]: "have the hook add less",
    LABELS["output"]: "simplify the type of the answer",
    TOOLS: "offer fewer tools, or shorten their descriptions; roles of their own can have some of them",
}
_SHARED: Final = "shared context "
_SHORTEN_SHARED: Final = "ask that role for a shorter answer, or narrow the policy of the edge"

_CUT_RESULT: Final = re.compile(r"characters left out: the limit of the tool is|left out: the limit of the tool is")
_CUT_REPLY: Final = re.compile(r"^Your last reply was cut off at its length limit")

_MISSING: Final = (
    ("which this role depends on and was not given", "let that role run first, or remove it from `depends_on`"),
    ("which was delivered with the attempt", "have the agent's hooks and compaction keep system messages"),
    ("missing: the awareness", "have the agent's hooks and compaction keep system messages"),
    ("missing: the input", "have the agent's hooks and compaction keep the query"),
)


def suggestions(prompt: Prompt) -> list[str]:
    """Returns a line per section that something can be done about, each once."""
    found = [*_of_long(prompt), *_of_repeated(prompt), *_of_cut(prompt), *_of_missing(prompt), *prompt.advice]
    return list(dict.fromkeys(found))


def _of_long(prompt: Prompt) -> Iterator[str]:
    total = sum(section.tokens for section in prompt.sections)
    for section in sorted(prompt.sections, key=lambda section: -section.tokens):
        if section.tokens >= LONG_TOKENS and section.tokens >= LONG_SHARE * total and (advice := _advice(section)):
            yield f"long: {section.label} has {section.tokens / total:.0%} of the prompt: {advice}"


def _advice(section: Section) -> str:
    return _SHORTEN_SHARED if section.label.startswith(_SHARED) else _SHORTEN.get(section.label, "")


def _of_repeated(prompt: Prompt) -> Iterator[str]:
    for warning in prompt.warnings:
        if warning.startswith("duplicate: "):
            numbers = " and ".join(dict.fromkeys(re.findall(r"message (\d+)", warning)))
            yield f"repeated: messages {numbers}: leave one of them out where the later one is added"


def _of_cut(prompt: Prompt) -> Iterator[str]:
    for message in prompt.messages:
        if message.origin == "tool_result" and _CUT_RESULT.search(message.text):
            name = f"message {message.number} ({message.label})"
            yield f"cut: {name}: raise `max_output_bytes` of the tool, or have it return less"
        elif message.origin == "note" and _CUT_REPLY.match(message.text):
            yield f"cut: the reply before message {message.number}: raise `max_tokens` of the agent"
        elif message.origin == "summary":
            name = f"message {message.number} stands for older messages"
            yield f"cut: {name}: raise `max_context_tokens` of the compaction if they are needed"


def _of_missing(prompt: Prompt) -> Iterator[str]:
    for warning in prompt.warnings:
        for part, advice in _MISSING:
            if warning.startswith("missing: ") and part in warning:
                what = warning.partition(",")[0].partition(";")[0]
                yield f"{what}: {advice}"
                break
