"""Opens long-term memory as the settings say."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument
from archon_mesh.memory.long_term import LongTermMemory, LongTermStore, Outbox, SqliteLongTermStore, create_embedder
from archon_services.memory.settings import MemorySettings, default_db
from archon_services.postgres.dsn import is_dsn

_log = logging.getLogger(__name__)

STORE_FILE = "long_term.db"
OUTBOX_FILE = "long_term_outbox.db"


@asynccontextmanager
async def open_long_term_memory(settings: MemorySettings) -> AsyncIterator[LongTermMemory | None]:
    """Yields the memory, or None if it is off: the service then does not serve it.

    It is off if `long_term` says so, if its packages are missing, and by default beside PostgreSQL, whose replicas
    would each have a file of their own. Raises InvalidArgument if a setting is malformed, Unavailable if the SQLite
    file cannot be opened, FailedPrecondition if a newer version of Archon wrote it, DataLoss if it is not a
    valid store. A Weaviate that is down does not delay the start.
    """
    async with AsyncExitStack() as stack:
        kind = settings.long_term or ("off" if is_dsn(settings.db) else "sqlite")
        memory: LongTermMemory | None = None
        if kind != "off":
            try:
                memory = await stack.enter_async_context(await _create(kind, settings))
            except FailedPrecondition as error:
                if "extra" not in error.metadata:
                    raise
                _log.warning("long-term memory is not served: %s", error)
        yield memory


async def _create(kind: str, settings: MemorySettings) -> LongTermMemory:
    store: LongTermStore
    outbox: Outbox | None = Outbox(_beside_db(settings, OUTBOX_FILE))
    if kind == "sqlite":
        store = SqliteLongTermStore(_beside_db(settings, STORE_FILE))
    elif kind.startswith(("weaviate://", "weaviates://")):
        from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore

        store = WeaviateLongTermStore(kind, api_key=os.environ.get("WEAVIATE_API_KEY"))
        outbox = await _usable(outbox)
    else:
        raise InvalidArgument("long_term must be sqlite, off, or weaviate://HOST:PORT")
    embedder = create_embedder(
        settings.embedder,
        base_url=settings.embedder_url,
        api_key=settings.embedder_key,
        timeout=settings.embedder_timeout,
    )
    return LongTermMemory(store, embedder, outbox=outbox, embedder_timeout=settings.embedder_timeout)


def _beside_db(settings: MemorySettings, name: str) -> Path:
    """Returns the path of a file; `:memory:` if the service keeps everything there."""
    if settings.db == ":memory:":
        return Path(settings.db)
    return Path(default_db() if is_dsn(settings.db) else settings.db).with_name(name)


async def _usable(outbox: Outbox | None) -> Outbox | None:
    """Returns the outbox, or None if its folder cannot be written to: a cluster's disks may be read-only."""
    try:
        if outbox is not None:
            await outbox.open()
    except ArchonError as error:
        _log.warning("long-term memory has no outbox: %s", error)
        return None
    return outbox
