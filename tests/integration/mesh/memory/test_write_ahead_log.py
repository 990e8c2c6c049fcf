"""A database that several connections open at the same time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from archon_mesh.memory.write_ahead_log import use_write_ahead_log

ROUNDS = 25
CONNECTIONS = 4


@pytest.mark.parametrize("connect", [sqlite3.connect, apsw.Connection], ids=["sqlite3", "apsw"])
def test_connections_that_open_a_new_database_at_once_all_switch_it(
    tmp_path: Path, connect: Callable[[str], Any]
) -> None:
    """A bare `PRAGMA journal_mode = WAL` fails in a quarter of the rounds."""
    failures: list[Exception] = []

    def switch(file: str, barrier: threading.Barrier) -> None:
        connection = connect(file)
        barrier.wait(30)
        try:
            use_write_ahead_log(connection)
            assert list(connection.execute("PRAGMA journal_mode")) == [("wal",)]
        except Exception as error:  # noqa: BLE001 - reported below
            failures.append(error)
        finally:
            connection.close()

    for number in range(ROUNDS):
        file, barrier = str(tmp_path / f"{number}.db"), threading.Barrier(CONNECTIONS)
        Path(file).touch()
        threads = [threading.Thread(target=switch, args=(file, barrier)) for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []


def test_another_error_is_raised_at_once(tmp_path: Path) -> None:
    file = tmp_path / "none.db"
    file.write_bytes(b"this is no database, but a text that is long enough" * 100)
    connection = sqlite3.connect(file)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        use_write_ahead_log(connection)
    connection.close()
