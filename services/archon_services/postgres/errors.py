"""Converts PostgreSQL's errors to `archon.errors`. The driver's errors never leave this package."""

from __future__ import annotations

from typing import Final

import asyncpg

from archon.errors import (
    ArchonError,
    DataLoss,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from archon.failure_kinds import STORAGE

RETRY: Final = 1.0
"""Seconds after which a caller should retry an unavailable database."""

FULL_RETRY: Final = 5.0
_UNAVAILABLE: Final = {
    "57P01": "is shutting down",
    "57P02": "has crashed and restarts",
    "57P03": "is starting or stopping",
    "57P05": "closed an idle session",
    "25P03": "closed an idle transaction",
    "25006": "is a read-only standby",
    "53300": "has no free connection",
}
_CONNECTION_LOST: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "25006")
"""25006: the server became a standby; another connection may find the primary."""

_REFUSED: Final = {
    "28000": "refuses this user",
    "28P01": "refuses this user's password",
    "3D000": "has no such database",
    "3F000": "has no such schema",
    "42501": "does not grant this user the necessary privileges",
    "42704": "does not know an option of the address",
}


def is_connection_lost(error: BaseException) -> bool:
    """Whether the connection failed rather than the statement, whose outcome is then unknown."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state.startswith("08") or state in _CONNECTION_LOST
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)  # a ValueError is a value that the driver cannot encode
    return isinstance(error, OSError | asyncpg.InternalClientError)


def to_archon_error(error: BaseException, address: str) -> ArchonError:
    """Converts an error. `address` names the database without its password. Unavailable and ResourceExhausted carry a
    retry delay."""
    if isinstance(error, ArchonError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        return _from_server(error, address)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return InvalidArgument(f"the address of the PostgreSQL database at {address} cannot be used")
    if isinstance(error, TimeoutError):
        return Unavailable(f"the database at {address} does not answer", retry_delay=RETRY, kind=STORAGE)
    if is_connection_lost(error):
        return Unavailable(
            f"the database at {address} cannot be reached: {_first_line(error)}", retry_delay=RETRY, kind=STORAGE
        )
    if isinstance(error, ValueError):
        return InvalidArgument("PostgreSQL cannot store a value")  # the driver's message would repeat it
    return Internal(f"the database at {address}: {type(error).__name__}")


def _from_server(error: asyncpg.PostgresError, address: str) -> ArchonError:
    state = error.sqlstate or ""
    if state == "53100":
        return ResourceExhausted(f"the disk of the database at {address} is full", retry_delay=FULL_RETRY, kind=STORAGE)
    if state in ("53000", "53200", "53400"):
        return ResourceExhausted(
            f"the database at {address} is out of resources: {_first_line(error)}", retry_delay=FULL_RETRY, kind=STORAGE
        )
    if state in _UNAVAILABLE:
        return Unavailable(f"the database at {address} {_UNAVAILABLE[state]}", retry_delay=RETRY, kind=STORAGE)
    if state in _REFUSED:
        return FailedPrecondition(f"the database at {address} {_REFUSED[state]}: {_first_line(error)}")
    if state in ("22021", "22P05"):
        return InvalidArgument("PostgreSQL cannot store text with the character U+0000")
    if state.startswith("08") or state in ("40001", "40P01", "55P03", "57014"):
        return Unavailable(
            f"the database at {address} cannot serve the request now: {_first_line(error)}",
            retry_delay=RETRY,
            kind=STORAGE,
        )
    if state in ("XX001", "XX002"):
        return DataLoss(f"the database at {address} is damaged: {_first_line(error)}")
    if state.startswith("58"):
        return Unavailable(
            f"the disk of the database at {address} failed: {_first_line(error)}", retry_delay=FULL_RETRY, kind=STORAGE
        )
    return Internal(f"the database at {address} refuses a statement ({state}): {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
