"""The entries that a run leaves in long-term memory: its turn, findings, outcome, and preferences of the user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from archon_mesh.agent.ids import new_id
from archon_mesh.core.messages import ChatMessage
from archon_mesh.memory.automatic.findings import findings
from archon_mesh.memory.automatic.owner import Owner
from archon_mesh.memory.long_term.entry_writer import NewEntry

TURN: Final = "turn"
FINDING: Final = "finding"
OUTCOME: Final = "outcome"
PREFERENCE: Final = "preference"
SUMMARY: Final = "summary"

IMPORTANCE: Final = {TURN: 0.4, OUTCOME: 0.4, FINDING: 0.6, SUMMARY: 0.6, PREFERENCE: 0.9}
"""The importance of an entry by its type, from 0 to 1; from 0.8 on an entry is never archived for its age."""

MAX_QUERY: Final = 2_000
MAX_ANSWER: Final = 4_000
"""Characters of a query and of an answer that a turn keeps."""

MAX_TASK: Final = 300
"""Characters of the task in an outcome."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that has ended. `key` is the same if the run is repeated. `error` is empty if it completed."""

    owner: Owner
    key: str
    query: str
    answer: str
    messages: Sequence[ChatMessage]
    error: str = ""


def entries_of(run: EndedRun, preferences: Iterable[str]) -> list[NewEntry]:
    """Returns the entries that a run is worth: preferences, its turn, findings, and the use of its tools."""
    entries = [_entry(run, PREFERENCE, text, number, role="user") for number, text in enumerate(preferences)]
    if run.answer.strip() and run.query.strip():
        entries.append(_entry(run, TURN, turn_text(run.query, run.answer)))
        entries += [
            _entry(run, FINDING, text, number)
            for number, text in enumerate(findings(run.messages, run.query, run.answer))
        ]
    tools = list(dict.fromkeys(call.name for message in run.messages for call in message.tool_calls))
    if run.query.strip() and (tools or run.error):
        how = f" with {', '.join(tools)}" if tools else ""
        what = f"failed{how}: {run.error}" if run.error else f"completed{how}"
        entries.append(_entry(run, OUTCOME, f"Task: {run.query[:MAX_TASK]}\nOutcome: {what}"))
    return entries


def summary_entry(owner: Owner, text: str) -> NewEntry:
    """Returns the entry of a summary of turns."""
    return NewEntry(text, owner.metadata(SUMMARY), IMPORTANCE[SUMMARY], f"summary/{new_id()}")


def turn_text(query: str, answer: str) -> str:
    """Returns the query, cut to MAX_QUERY characters, and the answer, as they are stored and embedded."""
    return f"{turn_start(query)}{answer_text(answer)}"


def turn_start(query: str) -> str:
    """Returns the text of a turn up to its answer."""
    return f"user: {query.strip()[:MAX_QUERY]}\nassistant: "


def answer_text(answer: str) -> str:
    """Returns the text of an answer in a turn."""
    return answer.strip()[:MAX_ANSWER]


def _entry(run: EndedRun, kind: str, text: str, number: int = 0, role: str = "") -> NewEntry:
    return NewEntry(text, run.owner.metadata(kind, role), IMPORTANCE[kind], f"{run.key}/{kind}/{number}")
