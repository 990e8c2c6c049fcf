"""Opens the long-term memory of an agent: the memory service's, or a file of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Final

from archon.errors import InvalidArgument
from archon.memory import LongTermMemoryClient
from archon_mesh.memory.automatic.access import OpenableMemory
from archon_mesh.memory.long_term import LongTermMemory, Outbox, SqliteLongTermStore, Weights, create_embedder
from archon_mesh.memory.long_term.guard import LIMIT
from archon_mesh.memory.long_term.retrieval import DEFAULT_WEIGHTS

STORE_FILE: Final = "agent_memory.db"
OUTBOX_FILE: Final = "agent_memory_outbox.db"


def open_memory(environment: Mapping[str, str] | None = None, *, half_life: float | None = None) -> OpenableMemory:
    """Returns a memory, not open yet: the memory service's at ARCHON_MEMORY, or else the files agent_memory.db and
    agent_memory_outbox.db below ARCHON_HOME or `.archon`, with the embedder ARCHON_EMBEDDER (ARCHON_EMBEDDER_URL,
    ARCHON_EMBEDDER_KEY, ARCHON_EMBEDDER_TIMEOUT).

    `half_life` is in seconds: the age at which recency has half its value; a memory service has its own. Opening raises
    FailedPrecondition if a package is missing. Raises InvalidArgument for an unknown embedder,
    and for a time limit that is no number of seconds.
    """
    variables = os.environ if environment is None else environment
    if target := variables.get("ARCHON_MEMORY", ""):
        return LongTermMemoryClient(target)
    timeout = _seconds(variables.get("ARCHON_EMBEDDER_TIMEOUT", ""))
    folder = Path(variables.get("ARCHON_HOME") or ".archon")
    return LongTermMemory(
        SqliteLongTermStore(folder / STORE_FILE),
        create_embedder(
            variables.get("ARCHON_EMBEDDER", ""),
            base_url=variables.get("ARCHON_EMBEDDER_URL"),
            api_key=variables.get("ARCHON_EMBEDDER_KEY"),
            timeout=timeout,
        ),
        embedder_timeout=timeout,
        outbox=Outbox(folder / OUTBOX_FILE),
        weights=DEFAULT_WEIGHTS if half_life is None else Weights(half_life=half_life),
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text or LIMIT)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise InvalidArgument(f"ARCHON_EMBEDDER_TIMEOUT is {text!r}: it must be a number of seconds")
    return seconds
