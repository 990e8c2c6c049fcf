"""Long-term memory: its entries, the context that is assembled of them, and files of exports."""

from archon.memory.long_term.context import RetrievedContext, Template
from archon.memory.long_term.entry import EmbeddingState, FoundEntry, LongTermEntry, LongTermStats, Source

__all__ = [
    "EmbeddingState",
    "FoundEntry",
    "LongTermEntry",
    "LongTermStats",
    "RetrievedContext",
    "Source",
    "Template",
]
