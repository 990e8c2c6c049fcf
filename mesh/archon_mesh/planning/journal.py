"""Journals of plans: where a plan in this process is kept, so that another process can go on with it.

A journal is a list of records that only grows. `FileJournal` keeps it in a file; a store of your own has the three
methods of `PlanJournal`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeVar
from uuid import uuid4
from zlib import crc32

from archon.errors import ArchonError, DataLoss, FailedPrecondition, InvalidArgument, ResourceExhausted
from archon.private_files import private_file

T = TypeVar("T")

APPLICATION_ID: Final = 0x4172506C
"""SQLite's mark of the program that a file belongs to: "ArPl"."""

FORMAT: Final = 1
"""The version of the tables. (Records have a version of their own.)"""

_TABLES: Final = (
    "CREATE TABLE owner (id INTEGER PRIMARY KEY CHECK (id = 1), token TEXT NOT NULL)",
    "CREATE TABLE records (seq INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL)",
)
_HEADER: Final = b"SQLite format 3\0"
"""The first bytes of a database."""

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)


class JournalInUse(FailedPrecondition):
    """Another process, or another plan of this one, uses the journal."""


class JournalMismatch(FailedPrecondition):
    """The journal is not of this plan: it is of another query, of a later version of Archon, or no journal at all."""


class PlanJournal(Protocol):
    """Keeps the records of one plan, in order."""

    def open(self) -> Sequence[bytes]:
        """Takes the journal for this process, and returns the records that it has. Raises JournalInUse if it is taken,
        JournalMismatch if it is no journal, DataLoss if it is damaged; then nothing is changed."""
        ...

    def append(self, records: Sequence[bytes]) -> None:
        """Adds records after the others: all of them, or none if it raises. They are durable when it returns. Raises
        ArchonError."""
        ...

    def close(self) -> None:
        """Releases the journal. Idempotent."""
        ...


class FileJournal:
    """A journal in a SQLite file, for one process at a time: an OS lock on `<path>.lock` excludes others.

    `sync` is `full` (each append is on the disk: survives a power cut) or `normal` (without an fsync: survives kill -9;
    a power cut may take the last appends, or damage the file, which is noticed). At rest all is in the one file, which
    may be moved and copied; after a kill, together with `<path>-journal`, if there is one.
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: Literal["full", "normal"] = "full") -> None:
        self.path = Path(path)
        self._sync = sync
        self._lock: int | None = None
        self._db: sqlite3.Connection | None = None
        self._token = ""
        self._process = 0
        self._file = (0, 0)
        self._last = 0

    def open(self) -> Sequence[bytes]:
        """As PlanJournal has it. Creates the file if there is none or it is empty. Raises FailedPrecondition if it
        cannot be used."""
        if self._db is not None:
            raise JournalInUse(f"the journal {self.path} is in use by another plan of this process")
        try:
            self._take_lock()
            return self._open()
        except BaseException as error:
            self._release()
            if isinstance(error, (OSError, sqlite3.Error)) and not isinstance(error, ArchonError):
                raise self._unusable(error) from error
            raise

    def append(self, records: Sequence[bytes]) -> None:
        """As PlanJournal has it. Raises ResourceExhausted if the disk is full, JournalInUse if another process has
        taken the journal meanwhile, and FailedPrecondition if the file is gone."""
        db = self._db
        if db is None:
            raise FailedPrecondition(f"the journal {self.path} is not open")
        if os.getpid() != self._process:
            raise JournalInUse(
                f"the journal {self.path} belongs to process {self._process}, from which this one was forked"
            )
        try:
            self._check_file()
            self._insert(db, records)
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, ArchonError):
                raise
            raise self._unusable(error) from error
        self._last += len(records)

    def close(self) -> None:
        """Releases the file. Idempotent."""
        self._release()

    def _take_lock(self) -> None:
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            os.close(lock)
            by = f"process {holder}" if holder.isdigit() else "another process"
            raise JournalInUse(
                f"the journal {self.path} is in use by {by}: wait for its end, or choose another file"
            ) from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)

    def _open(self) -> list[bytes]:
        private_file(self.path)
        self._check_begin()
        address = f"{self.path.absolute().as_uri()}?mode=rw"
        self._db = db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        # A power cut must not bring back the state before a commit: its effects are there already.
        db.execute(f"PRAGMA synchronous = {'EXTRA' if self._sync == 'full' else 'OFF'}")
        self._check_kind(db)
        self._token, self._process = uuid4().hex, os.getpid()
        records: list[bytes] = _in_transaction(db, self._claim)
        status = os.stat(self.path)
        self._file = status.st_dev, status.st_ino
        self._last = len(records)
        return records

    def _check_begin(self) -> None:
        """SQLite takes a file that is shorter than its own header for an empty one, and would overwrite it."""
        with self.path.open("rb") as file:
            begin = file.read(len(_HEADER))
        if begin and begin != _HEADER:
            raise JournalMismatch(f"{self.path} is no journal of a plan: choose another file")

    def _check_kind(self, db: sqlite3.Connection) -> None:
        """Reads only, so that a file of another program stays as it is."""
        (application,) = db.execute("PRAGMA application_id").fetchone()
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == APPLICATION_ID and version > FORMAT:
            raise JournalMismatch(
                f"the journal {self.path} was written by a newer version of Archon: use that version, or another file"
            )
        if application != APPLICATION_ID and (application or version or tables):
            raise JournalMismatch(f"{self.path} is a database of another program, and no journal: choose another file")

    def _claim(self, db: sqlite3.Connection) -> list[bytes]:
        (application,) = db.execute("PRAGMA application_id").fetchone()
        if application != APPLICATION_ID:
            for statement in _TABLES:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {FORMAT}")
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        rows = db.execute("SELECT seq, data, checksum FROM records ORDER BY seq").fetchall()
        records = [self._checked(number, row) for number, row in enumerate(rows, 1)]
        db.execute("INSERT OR REPLACE INTO owner VALUES (1, ?)", (self._token,))
        return records

    def _checked(self, number: int, row: Sequence[Any]) -> bytes:
        seq, data, checksum = row
        if seq != number or not isinstance(data, bytes) or checksum != _checksum(number, data):
            raise DataLoss(
                f"the journal {self.path} is damaged at record {number}: restore the file, or choose another one to "
                "begin anew"
            )
        return data

    def _insert(self, db: sqlite3.Connection, records: Sequence[bytes]) -> None:
        rows = [(seq, data, _checksum(seq, data)) for seq, data in enumerate(records, self._last + 1)]

        def insert(db: sqlite3.Connection) -> None:
            held = db.execute("SELECT token FROM owner").fetchone()
            if held != (self._token,):
                raise JournalInUse(f"another process has taken the journal {self.path} over")
            db.executemany("INSERT INTO records VALUES (?, ?, ?)", rows)

        _in_transaction(db, insert)

    def _check_file(self) -> None:
        """Raises FailedPrecondition if the path has another file: records would be lost with the open one."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._file:
            raise FailedPrecondition(
                f"the journal {self.path} was moved, removed or replaced while it was in use: put it back, and go on "
                "with it"
            )

    def _release(self) -> None:
        db, lock, self._db, self._lock = self._db, self._lock, None, None
        if db is not None and (not self._process or os.getpid() == self._process):
            db.close()
        if lock is not None:
            os.close(lock)

    def _unusable(self, error: OSError | sqlite3.Error) -> ArchonError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        number = (error.errno or 0) if isinstance(error, OSError) else 0
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        metadata = {"path": str(self.path)}
        if code == sqlite3.SQLITE_NOTADB:
            return JournalMismatch(f"{self.path} is no journal of a plan: choose another file", metadata=metadata)
        if code in _DAMAGED:
            return DataLoss(
                f"the journal {self.path} is damaged ({reason}): restore the file, or choose another one to begin anew",
                metadata=metadata,
            )
        if number in _NO_ROOM or code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._is_full()):
            return ResourceExhausted(
                f"the disk of the journal {self.path} is full: make room, and go on with the same journal",
                metadata=metadata,
            )
        if code == sqlite3.SQLITE_BUSY:
            return JournalInUse(f"another process is using the journal {self.path}", metadata=metadata)
        return FailedPrecondition(
            f"the journal {self.path} cannot be used: {reason}; make the file and its folder writable, or choose "
            "another file",
            metadata=metadata,
        )

    def _is_full(self) -> bool:
        try:
            return os.statvfs(self.path.parent).f_bavail == 0
        except OSError:
            return False


def journal_of(journal: PlanJournal | str | os.PathLike[str]) -> PlanJournal:
    """Returns a journal: a FileJournal for a path. Raises InvalidArgument if it is neither."""
    if isinstance(journal, (str, os.PathLike)):
        if not os.fspath(journal):
            raise InvalidArgument("the path of a journal is empty")
        return FileJournal(journal)
    return journal


def _in_transaction(db: sqlite3.Connection, work: Any) -> Any:
    db.execute("BEGIN IMMEDIATE")
    try:
        result = work(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return result


def _checksum(seq: int, data: bytes) -> int:
    return crc32(data, crc32(str(seq).encode()))
