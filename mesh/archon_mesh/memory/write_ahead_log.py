"""Switches SQLite databases to the write-ahead log."""

from __future__ import annotations

import time
from typing import Any, Final

WITHIN: Final = 5.0
"""Seconds in which a database that others open at the same time is switched."""

PAUSE: Final = 0.005
"""Seconds between two tries."""


def use_write_ahead_log(connection: Any) -> None:
    """Switches the database of a connection of sqlite3 or apsw. Raises the package's error, "database is locked", after
    WITHIN seconds.

    Of connections that switch a new database at the same time, all but one fail at once, whatever their busy timeout:
    each holds a lock for reading that the switch of the others has to wait for
    (https://www.sqlite.org/c3ref/busy_handler.html).
    """
    end = time.monotonic() + WITHIN
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() >= end:
                raise
        time.sleep(PAUSE)
