"""Settings of the shared memory service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from archon_services.common.settings import ServiceSettings


def default_db() -> str:
    """Returns the path of the default database file, below ARCHON_HOME or else `.archon` in the current directory."""
    return str(Path(os.environ.get("ARCHON_HOME", ".archon")) / "memory.db")


class MemorySettings(ServiceSettings):
    """The shared memory service."""

    section: ClassVar[str] = "memory"

    registry: str = Field(default="127.0.0.1:7101", pattern=r"^\S+:\d+$", description="host:port of the registry")
    db: str = Field(
        default_factory=default_db,
        min_length=1,
        description="SQLite file, postgresql://... address, or :memory: for a store that a restart empties",
    )
    sync: Literal["full", "normal"] = Field(
        default="full",
        description="durability of a SQLite file: 'full' survives a power failure, 'normal' a crash of the process; "
        "PostgreSQL always commits as with 'full'",
    )
    long_term: str = Field(
        default="",
        description="store of long-term memory: 'sqlite' (a file beside `db`), 'weaviate://HOST:PORT' (with "
        "?grpc_port= unless it is 50051), or 'off'; empty: 'sqlite', or 'off' if `db` is PostgreSQL",
    )
    embedder: str = Field(
        default="offline",
        min_length=1,
        description="embedder of long-term memory: 'offline', or 'openai/NAME' for a server with OpenAI's embeddings "
        "API",
    )
