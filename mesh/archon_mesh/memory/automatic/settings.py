"""Settings of automatic memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from archon.errors import InvalidArgument
from archon.memory.long_term.context import HISTORY_PART, RETRIEVED_PART, TEMPLATE_PART
from archon.memory.long_term.entry import MAX_LIMIT

DEFAULT_BUDGET: Final = 32_000
"""Tokens that history, memories and template of a request share."""

DEFAULT_RECALLED: Final = 8
"""Memories of a request, besides preferences."""


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """How much is recalled. Raises InvalidArgument if a number is out of range.

    `budget` is in tokens; `history`, `retrieved` and `template` are the parts of it for turns of earlier runs, for
    memories, and for system prompt and working memory. `limit` is the number of memories of a request, besides
    preferences. A memory needs a score of `threshold`; None lowers 0.7 while nothing reaches it. With `working_memory`
    the values of the run's storage are shown, too. With `ask_model` the model is asked for preferences that the rules
    do not recognise, at the cost of one more call for each run.
    """

    budget: int = DEFAULT_BUDGET
    history: float = HISTORY_PART
    retrieved: float = RETRIEVED_PART
    template: float = TEMPLATE_PART
    limit: int = DEFAULT_RECALLED
    threshold: float | None = None
    working_memory: bool = False
    ask_model: bool = False

    def __post_init__(self) -> None:
        parts = (self.history, self.retrieved, self.template)
        if self.budget < 1 or not 1 <= self.limit <= MAX_LIMIT:
            raise InvalidArgument(f"budget must be at least 1 token, and limit from 1 to {MAX_LIMIT}")
        if min(parts) < 0 or sum(parts) > 1 + 1e-9:
            raise InvalidArgument("the parts history, retrieved and template must be at least 0 and at most 1 in all")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InvalidArgument("threshold must be from 0 to 1")
