"""Decides which results of tools mattered: those with a fact that the answer repeats and the query did not have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from archon_mesh.core.facts import facts_of, sentences
from archon_mesh.core.messages import ChatMessage
from archon_mesh.core.tool_messages import has_failed

MAX_FINDINGS: Final = 5
"""Findings of a run; the latest are kept."""

MAX_CHARS: Final = 2_000
"""Characters of a finding."""


def findings(messages: Sequence[ChatMessage], query: str, answer: str) -> list[str]:
    """Returns, for each result of a tool that mattered, the tool and the sentences of the result with these facts.

    Arguments of the call are left out: they may hold credentials.
    """
    wanted = set(facts_of(answer)) - set(facts_of(query))
    tools = {call.id: call.name for message in messages for call in message.tool_calls}
    found: list[str] = []
    for message in messages:
        if message.role != "tool" or has_failed(message):
            continue
        used = [sentence for sentence in sentences(message.content) if wanted.intersection(facts_of(sentence))]
        if used:
            text = f"{tools.get(message.tool_call_id or '', 'a tool')}: {' '.join(used)}"[:MAX_CHARS]
            found.append(text)
    return list(dict.fromkeys(found))[-MAX_FINDINGS:]


def drew_on(answer: str, query: str, memory: str, others: Iterable[str] = ()) -> bool:
    """Tells whether an answer repeats a fact of a memory that neither the query nor the other texts have."""
    known = set(facts_of(query)).union(*(facts_of(text) for text in others))
    return bool(set(facts_of(answer)).intersection(facts_of(memory)) - known)
