"""What a coordinating role is told of the roles it can call: the edges among them, and an order that keeps them."""

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
    """What such a message says. `order` is empty where none could be found."""

    edges: tuple[tuple[str, str], ...]
    order: tuple[str, ...]


def awareness_message(edges: Iterable[tuple[str, str]], order: Sequence[str] | None) -> str:
    """The message for these edges (upstream, downstream), a line each, in the order given; empty where there are none.

    Where `order` is None, because sorting failed, its line is left out together with one of the two empty lines around
    it, so that there are never two in a row. It neither lists nor describes agents: their tools do that.
    """
    lines = [f"  {upstream}{_ARROW}{downstream}" for upstream, downstream in dict.fromkeys(edges)]
    if not lines:
        return ""
    recommended = ["", f"{_ORDER}{', '.join(order)}"] if order else []
    return "\n".join([_FIRST, "", _EDGES, *lines, *recommended, "", _LAST])


def awareness_chat_message(text: str) -> ChatMessage:
    """The text as the system message that it is for a model, tagged."""
    return ChatMessage("system", text, metadata={"orchestrator_awareness": True})


def read_awareness(messages: Iterable[ChatMessage]) -> Awareness | None:
    """What the awareness message among these says; None where there is none."""
    for message in messages:
        if message.role == "system" and message.content.startswith(f"{_FIRST}\n"):
            lines = message.content.splitlines()
            pairs = [line.strip().partition(_ARROW) for line in lines if line.startswith("  ") and _ARROW in line]
            orders = [line.removeprefix(_ORDER) for line in lines if line.startswith(_ORDER)]
            return Awareness(
                tuple((upstream, downstream) for upstream, _, downstream in pairs),
                tuple(orders[0].split(", ")) if orders else (),
            )
    return None
