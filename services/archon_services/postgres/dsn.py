"""Addresses of databases: what users write, in SQLAlchemy's form or libpq's, checked once and never shown in full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from archon.errors import InvalidArgument

SCHEMES: Final = ("postgresql", "postgres", "postgresql+asyncpg")
_KNOWN: Final = frozenset(
    {"application_name", "connect_timeout", "database", "dbname", "host", "options", "passfile", "password", "port"}
    | {"service", "sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"}
    | {"ssl_max_protocol_version", "ssl_min_protocol_version", "target_session_attrs", "user"}
)
_EXAMPLE: Final = "postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True)
class Dsn:
    """`address` is for the driver and holds the password; `shown` is for people and doesn't."""

    address: str
    shown: str
    connect_timeout: float | None = None
    """Seconds, where the user named them."""

    def __repr__(self) -> str:
        return f"Dsn({self.shown!r})"


def is_dsn(text: str) -> bool:
    """Whether a setting names a PostgreSQL database rather than a file."""
    return text.partition(":")[0].lower() in SCHEMES


def parse_dsn(text: str) -> Dsn:
    """Raises InvalidArgument with one sentence that doesn't repeat what may be a password."""
    if not is_dsn(text) or "://" not in text:
        raise InvalidArgument(f"this is no address of a PostgreSQL database; one reads {_EXAMPLE}")
    try:
        parts = urlsplit(text)
        asked = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise InvalidArgument(f"the address of the PostgreSQL database can't be read; one reads {_EXAMPLE}") from None
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(",") if hosts else ():
        _check_port(host)
    options: dict[str, str] = {}
    for key, value in asked:
        name = "sslmode" if key == "ssl" else key  # as SQLAlchemy calls it
        if name not in _KNOWN:
            raise InvalidArgument(f"the address of the PostgreSQL database has an option that is not known: {key}")
        options[name] = {"true": "require", "false": "disable"}.get(value, value) if key == "ssl" else value
    if "," in hosts:
        options.setdefault("target_session_attrs", "read-write")  # of several, the one that takes writes
    timeout = _seconds(options.pop("connect_timeout", ""))
    address = f"postgresql://{parts.netloc}{parts.path}" + (f"?{urlencode(options)}" if options else "")
    place = hosts or options.get("host", "") or "localhost"
    database = parts.path.lstrip("/") or options.get("dbname", options.get("database", ""))
    return Dsn(address, f"{place}/{database}", timeout)


def _check_port(host: str) -> None:
    _, colon, port = host.rpartition("]")[2].partition(":")
    if "@" in host or (colon and port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise InvalidArgument(
            "the address of the PostgreSQL database has a port that is no number; "
            "a password with special characters must be percent-encoded"
        )


def _seconds(text: str) -> float | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument("connect_timeout in the address of the PostgreSQL database must be whole seconds")
    return float(text) or None  # libpq: 0 waits for ever, which nothing here does
