"""PostgreSQL's errors as those of our tree. What the driver raises never leaves this package."""

from __future__ import annotations

from typing import Final

import asyncpg

from archon.errors import ArchonError, FailedPrecondition, Internal, InvalidArgument, ResourceExhausted, Unavailable

RETRY: Final = 1.0
"""Seconds that callers are told to wait for a database that is away."""

FULL_RETRY: Final = 5.0
_AWAY: Final = {
    "57P01": "is shutting down",
    "57P02": "has crashed and restarts",
    "57P03": "is starting or stopping",
    "57P05": "closed an idle session",
    "25P03": "closed an idle transaction",
    "25006": "only takes reads: it is a standby",
    "53300": "has no connection left for us",
}
_GONE: Final = ("57P01", "57P02", "57P03", "57P05", "25P03", "25006")
"""25006: the server became a standby; another connection may find the primary."""

_REFUSED: Final = {
    "28000": "refuses this user",
    "28P01": "refuses this user's password",
    "3D000": "has no such database",
    "3F000": "has no such schema",
    "42501": "doesn't allow this user what is needed",
    "42704": "doesn't know an option of the address",
}


def is_lost(error: BaseException) -> bool:
    """Whether the connection, rather than the statement, failed: what became of the statement isn't known."""
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return state.startswith("08") or state in _GONE
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)  # those are values that the driver can't encode
    return isinstance(error, OSError | asyncpg.InternalClientError)


def explained(error: BaseException, where: str) -> ArchonError:
    """The error as one of our tree; `where` names the database without its password. Unavailable and ResourceExhausted
    come with a delay after which to try again."""
    if isinstance(error, ArchonError):
        return error
    if isinstance(error, asyncpg.PostgresError):
        return _of_the_server(error, where)
    if isinstance(error, asyncpg.ClientConfigurationError):
        return InvalidArgument(f"the address of the PostgreSQL database at {where} can't be used")
    if isinstance(error, TimeoutError):
        return Unavailable(f"the database at {where} doesn't answer", retry_delay=RETRY)
    if is_lost(error):
        return Unavailable(f"the database at {where} can't be reached: {_first_line(error)}", retry_delay=RETRY)
    if isinstance(error, ValueError):
        return InvalidArgument("a value can't be held by PostgreSQL")  # the driver's words would repeat it
    return Internal(f"the database at {where}: {type(error).__name__}")


def _of_the_server(error: asyncpg.PostgresError, where: str) -> ArchonError:
    state = error.sqlstate or ""
    if state == "53100":
        return ResourceExhausted(f"the disk of the database at {where} is full", retry_delay=FULL_RETRY)
    if state in ("53000", "53200", "53400"):
        return ResourceExhausted(f"the database at {where} has no room: {_first_line(error)}", retry_delay=FULL_RETRY)
    if state in _AWAY:
        return Unavailable(f"the database at {where} {_AWAY[state]}", retry_delay=RETRY)
    if state in _REFUSED:
        return FailedPrecondition(f"the database at {where} {_REFUSED[state]}: {_first_line(error)}")
    if state in ("22021", "22P05"):
        return InvalidArgument("text with the character U+0000 can't be held by PostgreSQL")
    if state.startswith("08") or state in ("40001", "40P01", "55P03", "57014"):
        return Unavailable(f"the database at {where} couldn't do it now: {_first_line(error)}", retry_delay=RETRY)
    if state.startswith("58"):
        return Unavailable(f"the disk of the database at {where} failed: {_first_line(error)}", retry_delay=FULL_RETRY)
    return Internal(f"the database at {where} refuses a statement ({state}): {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
