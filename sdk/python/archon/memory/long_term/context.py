"""Assembles the input of a model: template, memories and history, each within its part of a token budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from archon.errors import InvalidArgument
from archon.memory.long_term.entry import MAX_QUERY_BYTES, FoundEntry, LongTermEntry

HISTORY_PART: Final = 0.5
RETRIEVED_PART: Final = 0.3
TEMPLATE_PART: Final = 0.2
"""Parts of the budget: recent turns, memories, and everything that does not change with the query."""

RECENT_TURNS: Final = 2
"""Turns of the history by which is searched, besides the current query."""

MAX_TURN_CHARACTERS: Final = 500
"""Characters of each of these turns."""

STALE_AFTER: Final = 180 * 86_400.0
"""Seconds after which a memory is marked as possibly out of date."""

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Template:
    """The texts around memories and turns: the system prompt, the working memory, and the instruction at the end."""

    system: str = ""
    working: str = ""
    instruction: str = ""


NO_TEMPLATE: Final = Template()


@dataclass(frozen=True, slots=True)
class RetrievedContext:
    """The assembled context. `memories` are those that had room, `left_out` is the number of the others, and `tokens`
    the estimate for the text."""

    text: str
    memories: tuple[FoundEntry, ...]
    tokens: int
    left_out: int = 0

    def __str__(self) -> str:
        return self.text


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text: one per four characters, rounded up."""
    return -(-len(text) // 4)


def memory_line(entry: LongTermEntry, now: float | None = None) -> str:
    """Returns `[Memory from DATE, ROLE] text`, marked if it is stale at `now`, in seconds since the Unix epoch; None:
    not marked."""
    date = datetime.fromtimestamp(entry.create_time, UTC).strftime("%Y-%m-%d")
    doubt = ", may be out of date" if now is not None and is_stale(entry, now) else ""
    return f"[Memory from {date}, {entry.metadata.get('role') or 'unknown'}{doubt}] {entry.content}"


def is_stale(entry: LongTermEntry, now: float) -> bool:
    """Whether an entry is so old that it may no longer hold. Preferences, which their user changes, are not."""
    return now - entry.create_time > STALE_AFTER and entry.metadata.get("type") != "preference"


def build_query(current_query: str, history: Sequence[str]) -> str:
    """Returns the text to search for: the current query and the last turns before it, as far as a query may be long."""
    turns = [turn[:MAX_TURN_CHARACTERS].strip() for turn in history[-RECENT_TURNS:]]
    query = "\n".join([current_query, *filter(None, turns)])
    return query.encode(errors="replace")[:MAX_QUERY_BYTES].decode(errors="ignore")


def assemble(
    found: Iterable[FoundEntry],
    token_budget: int,
    *,
    history: Sequence[str] = (),
    template: Template = NO_TEMPLATE,
    count_tokens: CountTokens = estimate_tokens,
    now: float | None = None,
) -> RetrievedContext:
    """Returns system, working memory, memories, turns and instruction, in this order, within the budget.

    The newest turns and the best memories come first into their parts; the rest of the template's and the history's
    parts is added to the part of the memories. Memories that are stale at `now`, in seconds since the Unix epoch, are
    marked. A template above its part is cut at its end, the instruction last. Raises InvalidArgument if the budget is
    not above 0.
    """
    if token_budget <= 0:
        raise InvalidArgument("token_budget must be above 0")
    counted = _Counter(count_tokens)
    template_budget = int(token_budget * TEMPLATE_PART)
    # Space is reserved in the order of importance, which is not the order in the text.
    instruction = counted.cut(template.instruction, template_budget)
    system = counted.cut(template.system, template_budget - counted.cost(instruction))
    left = template_budget - counted.cost(instruction) - counted.cost(system)
    working = counted.cut(template.working, left)
    left -= counted.cost(working)
    history_budget = int(token_budget * HISTORY_PART)
    turns: list[str] = []
    for turn in reversed(history):
        if counted.cost(turn) > history_budget:
            break
        turns.insert(0, turn)
        history_budget -= counted.cost(turn)
    room = int(token_budget * RETRIEVED_PART) + left + history_budget
    memories: list[FoundEntry] = []
    left_out = 0
    for entry in found:
        cost = counted.cost(memory_line(entry.entry, now))
        if cost <= room:
            memories.append(entry)
            room -= cost
        else:
            left_out += 1
    lines = [system, working, *(memory_line(memory.entry, now) for memory in memories), *turns, instruction]
    text = "\n".join(filter(None, lines))
    return RetrievedContext(text, tuple(memories), count_tokens(text), left_out)


class _Counter:
    def __init__(self, count_tokens: CountTokens) -> None:
        self._count = count_tokens

    def cost(self, text: str) -> int:
        """Returns the tokens of a text with the end of its line; 0 if it is empty."""
        return self._count(text) + 1 if text else 0

    def cut(self, text: str, budget: int) -> str:
        """Returns the longest beginning of a text whose cost is within the budget."""
        if self.cost(text) <= budget:
            return text
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.cost(text[:middle]) <= budget else (low, middle - 1)
        return text[:low]
