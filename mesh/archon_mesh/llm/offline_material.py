"""Parses the messages for the offline model: prompt, query, and shared context of other roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from archon_mesh.core.messages import SHARED_CONTEXT_PREFIX, ChatMessage

# Bullets and bold type are optional, because an upstream role may use a language model.
_REQUIREMENT = re.compile(r"[ \t]*(?:[-*][ \t]+)?\**R(\d{1,6})(?:\*\*)?[.:)](?:\*\*)?[ \t]+(\S.*)")
_COMPONENT = re.compile(
    r"[ \t]*(?:[-*][ \t]+)?\**C(\d{1,6})(?:\*\*)?[.:)]"  # its label
    r"(?:\*\*)?[ \t]+\**([^\W\d]\w*)\**(.*)"  # its name and the remark
)
_LABEL = re.compile(r"\bR\d{1,6}\b")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A numbered requirement."""

    number: int
    text: str

    @property
    def label(self) -> str:
        return f"R{self.number}"


@dataclass(frozen=True, slots=True)
class Component:
    """A numbered component of a design. `covers` has the labels of requirements, `remark` the rest of the line."""

    number: int
    name: str
    covers: tuple[str, ...]
    remark: str

    @property
    def label(self) -> str:
        return f"C{self.number}"


@dataclass(frozen=True, slots=True)
class Material:
    """The input of one reply; `shared` has (role, text) in the order of the messages."""

    prompt: str
    query: str
    shared: tuple[tuple[str, str], ...]
    tool_results: tuple[str, ...]
    requirements: tuple[Requirement, ...]
    components: tuple[Component, ...]


def read_material(messages: Sequence[ChatMessage]) -> Material:
    """Parses the messages. The query is the last user message; shared context is recognised by its first line."""
    system = [message.content for message in messages if message.role == "system"]
    shared = [_source_and_text(text) for text in system if text.startswith(SHARED_CONTEXT_PREFIX)]
    lines = [line for _, text in shared for line in text.splitlines()]
    return Material(
        prompt=next((text for text in system if not text.startswith(SHARED_CONTEXT_PREFIX)), ""),
        query=next((message.content for message in reversed(messages) if message.role == "user"), ""),
        shared=tuple(shared),
        tool_results=tuple(message.content for message in messages if message.role == "tool"),
        # Without duplicates: two roles may share the same line.
        requirements=tuple(dict.fromkeys(each for line in lines if (each := _requirement(line)))),
        components=tuple(dict.fromkeys(part for line in lines if (part := _component(line)))),
    )


def _source_and_text(content: str) -> tuple[str, str]:
    head, _, text = content.partition("\n")
    return head.removeprefix(SHARED_CONTEXT_PREFIX).rstrip(":"), text


def _requirement(line: str) -> Requirement | None:
    match = _REQUIREMENT.match(line)
    return Requirement(int(match[1]), match[2]) if match else None


def _component(line: str) -> Component | None:
    match = _COMPONENT.match(line)
    if not match:
        return None
    # Only the part before the quoted requirement, which may contain any label.
    covers, _, _ = match[3].partition(":")
    labels = dict.fromkeys(_LABEL.findall(covers))
    return Component(int(match[1]), match[2], tuple(labels), match[3].strip(" \u2014\u2013-"))
