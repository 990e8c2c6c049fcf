"""Opens the long-term memory of an agent: that of the memory service, or a file of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from archon.memory import LongTermMemoryClient
from archon_mesh.memory.automatic.access import OpenableMemory
from archon_mesh.memory.long_term import LongTermMemory, Outbox, SqliteLongTermStore, Weights, create_embedder
from archon_mesh.memory.long_term.retrieval import DEFAULT_WEIGHTS

STORE_FILE: Final = "agent_memory.db"
OUTBOX_FILE: Final = "agent_memory_outbox.db"


def open_memory(environment: Mapping[str, str] | None = None, *, half_life: float | None = None) -> OpenableMemory:
    """Returns a memory, not open yet: that of the memory service at ARCHON_MEMORY, or else the files agent_memory.db
    and agent_memory_outbox.db below ARCHON_HOME or `.archon`, with the embedder ARCHON_EMBEDDER.

    `half_life` is in seconds: the age at which recency has half its value; a memory service has its own. Opening raises
    FailedPrecondition if a package is missing. Raises InvalidArgument for an unknown embedder.
    """
    variables = os.environ if environment is None else environment
    if target := variables.get("ARCHON_MEMORY", ""):
        return LongTermMemoryClient(target)
    folder = Path(variables.get("ARCHON_HOME") or ".archon")
    return LongTermMemory(
        SqliteLongTermStore(folder / STORE_FILE),
        create_embedder(variables.get("ARCHON_EMBEDDER") or "offline"),
        outbox=Outbox(folder / OUTBOX_FILE),
        weights=DEFAULT_WEIGHTS if half_life is None else Weights(half_life=half_life),
    )
