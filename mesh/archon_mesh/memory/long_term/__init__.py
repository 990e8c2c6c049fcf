"""Long-term memory: texts that outlive runs, found by meaning and by words.

    store = SqliteLongTermStore(folder / "long_term.db")
    async with LongTermMemory(store, create_embedder("offline"), outbox=Outbox(folder / "outbox.db")) as memory:
        await memory.store("Ana is vegetarian.", {"user": "ana", "role": "user"})
        found = await memory.query("Which dishes suit Ana?", filters={"user": "ana"})

A query fuses a search by vectors and one by words, weighs recency, importance and feedback, and removes repetitions.
"""

from archon.memory.long_term.context import RetrievedContext, Template
from archon.memory.long_term.contradiction import Contradiction, Keep
from archon.memory.long_term.entry import FoundEntry, LongTermEntry, LongTermStats
from archon_mesh.memory.long_term.embedders import Embedder, OfflineEmbedder, create_embedder
from archon_mesh.memory.long_term.entry_writer import NewEntry
from archon_mesh.memory.long_term.growth import GrowthLimits
from archon_mesh.memory.long_term.memory import LongTermMemory
from archon_mesh.memory.long_term.model_judge import model_judge
from archon_mesh.memory.long_term.outbox import Outbox
from archon_mesh.memory.long_term.port import Filters, LongTermStore
from archon_mesh.memory.long_term.retrieval import Retrieval, Weights
from archon_mesh.memory.long_term.sqlite import SqliteLongTermStore

__all__ = [
    "Contradiction",
    "Embedder",
    "Filters",
    "FoundEntry",
    "GrowthLimits",
    "Keep",
    "LongTermEntry",
    "LongTermMemory",
    "LongTermStats",
    "LongTermStore",
    "NewEntry",
    "OfflineEmbedder",
    "Outbox",
    "Retrieval",
    "RetrievedContext",
    "SqliteLongTermStore",
    "Template",
    "Weights",
    "create_embedder",
    "model_judge",
]
