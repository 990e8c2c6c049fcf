"""The awareness message: tells a coordinator the dependencies among the roles that it can call, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from archon_mesh.core.messages import ChatMessage

_FIRST = "You are coordinating sub-agents with dependencies."
_EDGES = "Dependency order (call upstream before downstream):"
_ORDER = "Recommended execution order: "
_LAST = "Guideline: do not call an agent before its prerequisites have been executed."
_ARROW = " -> "


@dataclass(frozen=True, slots=True)
class Awareness:
    """The content of an awareness message. `order` is empty if there is none."""

    edges: tuple[tuple[str, str], ...]
    order: tuple[str, ...]


def awareness_message(edges: Iterable[tuple[str, str]], order: Sequence[str] | None) -> str:
    """Returns the message for edges (upstream, downstream), one line each, in the given order; empty without edges.

    If `order` is None because sorting failed, its line is omitted together with one of the two empty lines around it.
    The message neither lists nor describes agents: their tools do that.
    """
    lines = [f"  {upstream}{_ARROW}{downstream}" for upstream, downstream in dict.fromkeys(edges)]
    if not lines:
        return ""
    order_lines = ["", f"{_ORDER}{', '.join(order)}"] if order else []
    return "\n".join([_FIRST, "", _EDGES, *lines, *order_lines, "", _LAST])


def awareness_chat_message(text: str) -> ChatMessage:
    """Returns the text as a tagged system message."""
    return ChatMessage("system", text, metadata={"orchestrator_awareness": True})


def read_awareness(messages: Iterable[ChatMessage]) -> Awareness | None:
    """Returns the content of the awareness message among these, or None if there is none."""
    for message in messages:
        if message.role == "system" and message.content.startswith(f"{_FIRST}\n"):
            lines = message.content.splitlines()
            edges = [line.strip().partition(_ARROW) for line in lines if line.startswith("  ") and _ARROW in line]
            orders = [line.removeprefix(_ORDER) for line in lines if line.startswith(_ORDER)]
            return Awareness(
                tuple((upstream, downstream) for upstream, _, downstream in edges),
                tuple(orders[0].split(", ")) if orders else (),
            )
    return None
