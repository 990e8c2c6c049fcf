"""Database addresses as users write them, and the stores they select."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.journal.choose import open_journal
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from archon_services.postgres.dsn import parse_dsn


@pytest.mark.parametrize(
    ("written", "address", "redacted"),
    [
        ("postgresql://u:p@h:5433/db", "postgresql://u:p@h:5433/db", "h:5433/db"),
        ("postgres://u@h/db", "postgresql://u@h/db", "h/db"),
        ("postgresql+asyncpg://u:p%40q@h/db", "postgresql://u:p%40q@h/db", "h/db"),
        ("postgresql+asyncpg://h/db?ssl=require", "postgresql://h/db?sslmode=require", "h/db"),
        ("postgresql+asyncpg://h/db?ssl=true", "postgresql://h/db?sslmode=require", "h/db"),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=%2Frun%2Fpostgresql", "/run/postgresql/db"),
        ("postgresql://u@[::1]:5432/db", "postgresql://u@[::1]:5432/db", "[::1]:5432/db"),
        ("postgresql://a:1,b:2/db", "postgresql://a:1,b:2/db?target_session_attrs=read-write", "a:1,b:2/db"),
        ("postgresql://h/db?connect_timeout=3", "postgresql://h/db", "h/db"),
        ("postgresql://", "postgresql://", "localhost/"),
    ],
)
def test_both_address_forms_parse_and_redact_the_password(written: str, address: str, redacted: str) -> None:
    dsn = parse_dsn(written)
    assert dsn.address == address
    assert dsn.redacted == redacted
    assert ":p" not in repr(dsn)


def test_connect_timeout_comes_from_the_address() -> None:
    assert parse_dsn("postgresql://h/db?connect_timeout=3").connect_timeout == 3.0
    assert parse_dsn("postgresql://h/db?connect_timeout=0").connect_timeout is None


@pytest.mark.parametrize(
    "written",
    [
        "postgresql:/h/db",
        "postgresql:secret@h",
        "postgresql://u:sec#ret@h:5432/db",
        "postgresql://u:sec/ret@h:5432/db",
        "postgresql://u:sec@ret@h:secret/db",
        "postgresql://h:99999/db",
        "postgresql://u:secret@h/db?sslmod=require",
        "postgresql://u:secret@h/db?nonsense",
        "postgresql://u:secret@h/db?connect_timeout=soon",
        "postgresql://u:secret@[::1/db",
        "mysql://u:secret@h/db",
    ],
)
def test_invalid_address_is_one_sentence_without_the_password(written: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        open_journal(written)
    message = str(refused.value)
    assert "\n" not in message
    assert "sec" not in message.replace("secs", "").replace("seconds", "")


def test_address_selects_the_store(tmp_path: Path) -> None:
    assert isinstance(open_journal("memory"), MemoryJournal)
    file = open_journal(str(tmp_path / "journal.db"), "normal")
    assert isinstance(file, SqliteJournal)
    assert file.durability == "normal"
    database = open_journal("postgresql://h/db", "normal")
    assert type(database).__name__ == "PostgresJournal"
    assert database.durability == "full"
