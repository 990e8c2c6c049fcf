"""Addresses of databases, in SQLAlchemy's or libpq's form. They are validated once, and messages never show a
password."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from archon.errors import InvalidArgument

SCHEMES: Final = ("postgresql", "postgres", "postgresql+asyncpg")
_OPTIONS: Final = frozenset(
    {"application_name", "connect_timeout", "database", "dbname", "host", "options", "passfile", "password", "port"}
    | {"service", "sslcert", "sslcrl", "sslkey", "sslmode", "sslnegotiation", "sslpassword", "sslrootcert"}
    | {"ssl_max_protocol_version", "ssl_min_protocol_version", "target_session_attrs", "user"}
)
_EXAMPLE: Final = "postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True)
class Dsn:
    """A database address. `address` is for the driver and contains the password; `redacted` is host and database, for
    messages."""

    address: str
    redacted: str
    connect_timeout: float | None = None
    """Seconds, if the address sets it."""

    def __repr__(self) -> str:
        return f"Dsn({self.redacted!r})"


def is_dsn(text: str) -> bool:
    """Whether a setting is the address of a PostgreSQL database, rather than a file."""
    return text.partition(":")[0].lower() in SCHEMES


def parse_dsn(text: str) -> Dsn:
    """Parses an address. Raises InvalidArgument, whose message repeats nothing that may be a password."""
    if not is_dsn(text) or "://" not in text:
        raise InvalidArgument(f"invalid address of a PostgreSQL database, expected {_EXAMPLE}")
    try:
        parts = urlsplit(text)
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise InvalidArgument(f"malformed address of the PostgreSQL database, expected {_EXAMPLE}") from None
    hosts = parts.netloc.rpartition("@")[2]
    for host in hosts.split(",") if hosts else ():
        _check_port(host)
    options: dict[str, str] = {}
    for key, value in query:
        name = "sslmode" if key == "ssl" else key  # SQLAlchemy's name
        if name not in _OPTIONS:
            raise InvalidArgument(f"unknown option in the address of the PostgreSQL database: {key}")
        options[name] = {"true": "require", "false": "disable"}.get(value, value) if key == "ssl" else value
    if "," in hosts:
        options.setdefault("target_session_attrs", "read-write")  # of several hosts, the primary
    timeout = _seconds(options.pop("connect_timeout", ""))
    address = f"postgresql://{parts.netloc}{parts.path}" + (f"?{urlencode(options)}" if options else "")
    host = hosts or options.get("host", "") or "localhost"
    database = parts.path.lstrip("/") or options.get("dbname", options.get("database", ""))
    return Dsn(address, f"{host}/{database}", timeout)


def _check_port(host: str) -> None:
    _, colon, port = host.rpartition("]")[2].partition(":")
    if "@" in host or (colon and port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise InvalidArgument(
            "invalid port in the address of the PostgreSQL database; "
            "special characters in a password must be percent-encoded"
        )


def _seconds(text: str) -> float | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InvalidArgument("connect_timeout in the address of the PostgreSQL database must be whole seconds")
    return float(text) or None  # 0 means no limit in libpq; here it means the default
