"""The identity of a journal file: a file that was removed, replaced, truncated, or restored from an older copy is
noticed.

The file has an identity, and a generation that each start raises. The lock file beside it remembers both.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from pathlib import Path
from typing import Final

from archon.errors import DataLoss, FailedPrecondition
from archon_services.common.sqlite_writer import is_damage
from archon_services.orchestrator.journal.sqlite.file_size import missing_pages

OVERRIDE: Final = "ARCHON_JOURNAL_RESET=1"
_HINT: Final = f"restore it, or start with {OVERRIDE} to go on anyway"
BEGIN_ANEW: Final = f"restore it, or move it away and start with {OVERRIDE} to begin with an empty one"
_MAX_BYTES: Final = 200


class FileIdentity:
    """Of one journal, while its lock is held. `reset`: whether any file is accepted.

    Call `check_file` before the file is opened, then `check_content`, and `verify` whenever the file must still be the
    one at its path.
    """

    def __init__(self, path: Path, lock_file: int, *, reset: bool) -> None:
        self._path = path
        self._name = os.fspath(path)
        self._lock_file = lock_file
        self._reset = reset
        self._device = self._inode = self._size = 0
        """Of the open file; the size in bytes."""

    def check_file(self) -> None:
        """Raises FailedPrecondition if the journal existed before and is missing or empty, or if it is truncated."""
        identity, _ = self._remembered()
        if identity and not self._reset and not (self._path.exists() and self._path.stat().st_size):
            raise FailedPrecondition(f"the journal {self._path} existed before, and is missing or empty: {_HINT}")
        if self._path.exists() and self._path.stat().st_size and (part := missing_pages(self._path, with_wal=True)):
            raise FailedPrecondition(f"the journal {self._path} is truncated ({part}): {BEGIN_ANEW}")

    def check_content(self, db: sqlite3.Connection) -> None:
        """Checks that the open file is the one of the last start, and begins a new generation. Raises
        FailedPrecondition if it is another one, an older copy, or the database of another program."""
        remembered, remembered_generation = self._remembered()
        found = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('identity', 'generation')"))
        identity, generation = found.get("identity", ""), int(found.get("generation", 0))
        if remembered and not self._reset:
            if identity != remembered:
                raise FailedPrecondition(
                    f"the journal {self._path} was replaced by another one since its last start: {_HINT}"
                )
            if generation < remembered_generation:
                raise FailedPrecondition(
                    f"the journal {self._path} is an older copy of the one of its last start: {_HINT}"
                )
        identity = identity or uuid.uuid4().hex
        generation = max(generation, remembered_generation) + 1
        self._store(db, identity, generation)
        stat = self._path.stat()
        self._device, self._inode, self._size = stat.st_dev, stat.st_ino, stat.st_size

    def is_same(self, db: sqlite3.Connection) -> bool:
        """Tells whether a file is the one of the last start, or has no identity yet."""
        remembered, generation = self._remembered()
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return True
        found = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('identity', 'generation')"))
        return (
            found.get("identity", remembered) == remembered and int(found.get("generation", generation)) >= generation
        )

    def verify(self) -> str:
        """Describes the change of the file at the path since it was opened; empty if it is the same."""
        try:
            stat = os.stat(self._name)  # a Path would cost as much again, at each commit
        except OSError as error:
            return f"the journal {self._path} was removed: {error.strerror}"
        if stat.st_ino != self._inode or stat.st_dev != self._device:
            return f"the journal {self._path} was replaced by another file"
        return self._resized(stat.st_size) if stat.st_size != self._size else ""

    def _resized(self, size: int) -> str:
        # Only a VACUUM by another program makes a database smaller; its checkpoint leaves a file that is complete.
        if size < self._size:
            size = self._path.stat().st_size  # it may have grown since: a checkpoint runs on a thread of its own
            if size < self._size and (part := missing_pages(self._path, with_wal=False)):
                return f"the journal {self._path} was truncated: {part}"
        self._size = size
        return ""

    def _store(self, db: sqlite3.Connection, identity: str, generation: int) -> None:
        """Stores both in the file first: if only that survives, the generation of the file is the higher one."""
        (synchronous,) = db.execute("PRAGMA synchronous").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        rows = [("identity", identity), ("generation", str(generation))]
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", rows)
        db.execute("COMMIT")
        db.execute(f"PRAGMA synchronous = {int(synchronous)}")
        content = f"{identity} {generation}\n".encode()
        os.pwrite(self._lock_file, content.ljust(_MAX_BYTES, b"\n"), 0)
        os.fsync(self._lock_file)

    def _remembered(self) -> tuple[str, int]:
        """Identity and generation of the last start; empty if there was none."""
        identity, _, generation = os.pread(self._lock_file, _MAX_BYTES, 0).decode(errors="replace").partition(" ")
        return (identity, int(generation)) if identity and generation.strip().isdecimal() else ("", 0)


def check_is_journal(path: Path, db: sqlite3.Connection) -> None:
    """Raises FailedPrecondition if a database has tables, and is not a journal."""
    names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names - {"meta"} and not {"meta", "runs"} <= names:  # a first start makes the table meta before the others
        raise FailedPrecondition(f"{path} is the database of another program, not a journal of Archon")


def check_end(path: Path, db: sqlite3.Connection) -> None:
    """Raises DataLoss if a table cannot take new rows because its last ones are damaged: no run could go on."""
    try:
        for table in ("steps", "records", "outbox", "commands"):
            db.execute(f"SELECT rowid FROM {table} ORDER BY rowid DESC LIMIT 1").fetchone()
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        raise DataLoss(f"the journal {path} is damaged where new rows are written: {BEGIN_ANEW}") from error
