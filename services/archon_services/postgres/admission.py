"""The connections that a database grants a service: how many, and whether each is a session of its own.

Counting is opening: the limits of the role, of the database and of the server, and of a pooler between, are known to
the server alone, and the use by others changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import asyncpg

from archon.errors import FailedPrecondition
from archon_services.postgres.connections import CLOSE_TIMEOUT, CONNECT_TIMEOUT, STATEMENT_TIMEOUT, Connection
from archon_services.postgres.dsn import Dsn
from archon_services.postgres.errors import to_archon_error

PATIENCE: Final = 5.0
"""Seconds to wait for connections that an earlier process is giving back."""

_PAUSE: Final = 0.1
_ROUNDS: Final = 3
"""How often two connections are compared: a pooler may give one the same session twice by chance."""

_LIMITS: Final = (
    ("connections for role", "raise the role's limit (ALTER ROLE ... CONNECTION LIMIT)"),
    ("connections for database", "raise the database's limit (ALTER DATABASE ... CONNECTION LIMIT)"),
)
_SERVER_LIMIT: Final = "raise max_connections of the server"


async def admit(dsn: Dsn, application: str, *, least: int, most: int, patience: float | None = None) -> int:
    """Returns how many connections the database grants now, `most` at most. Opens and closes them. `patience` is
    how long to wait for `least`, in seconds, by default PATIENCE.

    Raises FailedPrecondition if they are fewer than `least` or if a pooler shares sessions between transactions,
    Unavailable if the database cannot be reached.
    """
    end = time.monotonic() + (PATIENCE if patience is None else patience)
    async with AsyncExitStack() as stack:
        connections: list[Connection] = []
        try:
            while len(connections) < most:
                try:
                    connection = await _connect(dsn, application)
                except asyncpg.TooManyConnectionsError as error:
                    if len(connections) >= least:
                        break
                    if time.monotonic() >= end:
                        raise _too_few(dsn, len(connections), least, str(error)) from None
                    await asyncio.sleep(_PAUSE)
                    continue
                connections.append(connection)
                stack.push_async_callback(_close, connection)
            async with asyncio.timeout(STATEMENT_TIMEOUT):
                shared = await _shares_sessions(connections)
        except Exception as error:  # noqa: BLE001 - converted, without the password that the driver's message may repeat
            raise to_archon_error(error, dsn.redacted) from None
    if shared:
        raise FailedPrecondition(
            f"the database at {dsn.redacted} is behind a pooler that shares sessions between transactions, which "
            "session locks and LISTEN do not survive: use pool_mode = session, or the address of the server itself"
        )
    return len(connections)


async def _connect(dsn: Dsn, application: str) -> Connection:
    seconds = min(CONNECT_TIMEOUT, dsn.connect_timeout or CONNECT_TIMEOUT)
    async with asyncio.timeout(seconds):
        settings = {"application_name": application}
        connection: Connection = await asyncpg.connect(
            dsn.address, timeout=seconds, statement_cache_size=0, server_settings=settings
        )
        return connection


async def _close(connection: Connection) -> None:
    """Returns when the server has ended the session, so that its connection is free."""
    try:
        await connection.close(timeout=CLOSE_TIMEOUT)
    except Exception:  # noqa: BLE001 - the connection may be lost already
        connection.terminate()


async def _shares_sessions(connections: Sequence[Connection]) -> bool:
    """Returns whether two open connections are given one session, or one connection two of them."""
    if len(connections) < 2:
        return False
    first, second = connections[:2]
    try:
        own = await _session(first)
        for _ in range(_ROUNDS):
            await second.execute("BEGIN")  # keeps the session that it is given until the end of the transaction
            other = await second.fetchval("SELECT pg_backend_pid()")
            if other == own or await _session(first) != own:
                return True
            await second.execute("COMMIT")
    except asyncpg.PostgresError as error:
        if "pooling mode" in str(error):  # for single statements
            return True
        raise
    return False


async def _session(connection: Connection) -> int:
    """Returns the id of the session that serves one transaction."""
    await connection.execute("BEGIN")  # the driver prepares a query in one message and executes it in another
    try:
        return int(await connection.fetchval("SELECT pg_backend_pid()"))
    finally:
        await connection.execute("COMMIT")


def _too_few(dsn: Dsn, granted: int, least: int, reason: str) -> FailedPrecondition:
    remedy = next((remedy for words, remedy in _LIMITS if words in reason), _SERVER_LIMIT)
    return FailedPrecondition(
        f"the database at {dsn.redacted} has {granted} free connections, of which this service needs {least}: "
        f"{remedy}, or end other programs that use it"
    )
