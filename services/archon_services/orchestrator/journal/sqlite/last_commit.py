"""The last commit of a journal, remembered beside it: a journal that ends before it is noticed at the next start.

SQLite takes a write-ahead log (WAL) that is cut or damaged for one that ends there, and goes on without a word. The
lock file therefore remembers after each commit how far the log went, and which step was stored last. A log that was
written back into the database since, by whatever program, is recognised by that step.

Source: https://www.sqlite.org/walformat.html (the frame header, the WAL-index header)
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zlib import crc32

from archon.errors import FailedPrecondition
from archon_services.common.machine import boot_id
from archon_services.common.sqlite_writer import is_damage
from archon_services.orchestrator.journal.checksum import checksum_of
from archon_services.orchestrator.journal.rows import Outcome, Step, StepResult

_log = logging.getLogger(__name__)

MAX_RUN_ID: Final = 128
"""Bytes of the id of a run whose steps are remembered."""

SLOTS: Final = 256
"""Remembered commits: the last one whose record is whole, and earlier ones, to count the losses of a power cut."""

_SLOT_BYTES: Final = 256
_OFFSET: Final = 4096
"""In the lock file."""

_RECORD: Final = struct.Struct(f"=Q8sI8s36sqI{MAX_RUN_ID}sH")
_CHECKSUM: Final = struct.Struct("=I")
_INDEX: Final = struct.Struct("=12xBBHI4x8s8s8x")
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24


@dataclass(slots=True)
class Position:
    """A place in the log: its salts, the number of frames up to there, and the checksum of the last one."""

    salts: bytes = bytes(8)
    frames: int = 0
    checksum: bytes = bytes(8)


@dataclass(slots=True)
class _Remembered:
    number: int
    position: Position
    boot: str
    run_id: str = ""
    base: int = 0
    step_checksum: int = 0


class LastCommit:
    """Of one journal, while its lock is held; `durability` is its `full` or `normal`. `reset`: whether a journal that
    ends before its last commit is accepted."""

    def __init__(self, path: Path, lock_file: int, *, durability: str, reset: bool) -> None:
        self._path = path
        self._lock_file = lock_file
        self._durability = durability
        self._reset = reset
        self._boot = boot_id()
        self._index: int | None = None
        self._number = 0
        self._step: tuple[str, int, int] = ("", 0, 0)
        """Run id, base and checksum of the step that was stored last."""

        self._noted: tuple[str, int, int] | None = None

    # At the start ----------------------------------------------------------------------------------------------------

    def check(self, is_same: Callable[[sqlite3.Connection], bool]) -> None:
        """Checks a journal that is not open yet, and leaves it as it is. `is_same` tells whether it is the file of the
        last start at all. Raises FailedPrecondition if it ends before its last commit; after a power cut, `normal` may
        have lost some, which is said and accepted."""
        remembered = self.read()
        if not remembered:
            return
        last = remembered[0]
        self._number, self._step = last.number, (last.run_id, last.base, last.step_checksum)
        if not self._path.exists():
            return
        log = Path(f"{self._path}-wal")
        has_log = log.exists() and log.stat().st_size > 0
        # A connection that only reads leaves the log as it is, however it ends; without a log it must make none.
        uri = f"{self._path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, timeout=5)) as db:
            try:
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if has_log:
                    self._open_index()
                found = self._position() if has_log else Position()
                missing = self._missing(db, remembered, found) if is_same(db) else ""
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                missing = ""  # damage is found when it is read
            finally:
                db.close()  # first: the locks of SQLite on its index would end with the other file
                self.close()
        if not missing:
            return
        self._step = ("", 0, 0)
        if self._durability == "normal" and last.boot != self._boot:
            _log.warning("the journal %s lost %s in a power cut or a restart of the machine", self._path, missing)
        elif self._reset:
            _log.warning("the journal %s goes on without %s", self._path, missing)
        else:
            raise FailedPrecondition(
                f"the journal {self._path} ends before its last commit: its write-ahead log is cut or damaged, and "
                f"{missing} would be lost. Restore {self._path}-wal, or start with ARCHON_JOURNAL_RESET=1 to go on "
                "without them"
            )

    def _missing(self, db: sqlite3.Connection, remembered: Sequence[_Remembered], found: Position) -> str:
        """Describes the missing commits, empty if there are none."""
        last = remembered[0].position
        if not last.frames:
            return ""
        if found.salts == last.salts:
            if found.frames >= last.frames and self._is_at(last):
                return ""
            lost = [each for each in remembered if each.position.salts == last.salts]
            commits = sum(each.position.frames > found.frames for each in lost)
            return f"{commits} or more commits" if commits == SLOTS else f"{max(1, commits)} of its last commits"
        step = (remembered[0].run_id, remembered[0].base, remembered[0].step_checksum)
        if not step[0]:
            return ""
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'steps'").fetchone():
            return "all of its commits"
        rows = db.execute("SELECT 1 FROM steps WHERE run_id = ? AND base = ? AND checksum = ?", step)
        return "" if rows.fetchone() else "its last commits"

    def _is_at(self, last: Position) -> bool:
        """Whether the log has the very frame that was written then."""
        with open(f"{self._path}-wal", "rb") as file:
            page_size = int.from_bytes(file.read(_WAL_HEADER)[8:12], "big")
            file.seek(_WAL_HEADER + (last.frames - 1) * (_FRAME_HEADER + page_size))
            return file.read(_FRAME_HEADER)[16:24] == last.checksum

    # While it is open ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """From here on the commits of the open journal are remembered."""
        self._open_index()
        self.committed()

    def note(self, steps: Sequence[Step], results: Sequence[StepResult]) -> None:
        """Notes the steps of a transaction that is about to be committed."""
        for step, result in zip(reversed(steps), reversed(results), strict=True):
            if result is Outcome.DONE:
                self._noted = (step.run_id, step.base, checksum_of(step))
                return

    def forget(self, run_id: str = "") -> None:
        """Forgets the step that was stored last if its run is about to be deleted; of any run if none is named."""
        if run_id in ("", self._step[0]):
            self._step = ("", 0, 0)

    def rolled_back(self) -> None:
        """The transaction was not committed."""
        self._noted = None

    def committed(self) -> None:
        """Remembers the commit that was just made."""
        if self._noted is not None:
            self._step, self._noted = self._noted, None
        position = self._position()
        run_id, base, step_checksum = self._step
        name = run_id.encode("utf-8", "surrogatepass")
        if len(name) > MAX_RUN_ID:
            name, base, step_checksum = b"", 0, 0
        self._number += 1
        record = _RECORD.pack(
            self._number, position.salts, position.frames, position.checksum, self._boot.encode(), base, step_checksum,
            name, len(name),
        )  # fmt: skip
        offset = _OFFSET + self._number % SLOTS * _SLOT_BYTES
        os.pwrite(self._lock_file, record + _CHECKSUM.pack(crc32(record)), offset)

    def close(self) -> None:
        """Ends it. Call it after the last connection is closed. Idempotent."""
        if self._index is not None:
            os.close(self._index)
            self._index = None

    def _open_index(self) -> None:
        self._index = os.open(f"{self._path}-shm", os.O_RDONLY)

    def _position(self) -> Position:
        assert self._index is not None
        content = os.pread(self._index, _INDEX.size, 0)
        if len(content) < _INDEX.size:
            return Position()
        _, _, _, frames, checksum, salts = _INDEX.unpack(content)
        return Position(salts, frames, _as_written(checksum))

    # The lock file ---------------------------------------------------------------------------------------------------

    def read(self) -> list[_Remembered]:
        """Returns the commits that the lock file remembers, the newest first."""
        content = os.pread(self._lock_file, SLOTS * _SLOT_BYTES, _OFFSET)
        slots = (content[start : start + _SLOT_BYTES] for start in range(0, len(content), _SLOT_BYTES))
        found = [record for slot in slots if (record := _read(slot)) is not None]
        return sorted(found, key=lambda record: record.number, reverse=True)


def _read(slot: bytes) -> _Remembered | None:
    """Returns the record of a slot, None if it is empty or was not written whole."""
    record, checksum = slot[: _RECORD.size], slot[_RECORD.size :][: _CHECKSUM.size]
    if len(checksum) < _CHECKSUM.size or not any(record) or _CHECKSUM.unpack(checksum)[0] != crc32(record):
        return None
    number, salts, frames, frame, boot, base, step, name, length = _RECORD.unpack(record)
    run_id = name[:length].decode("utf-8", "surrogatepass")
    return _Remembered(number, Position(salts, frames, frame), boot.rstrip(b"\0").decode(), run_id, base, step)


def _as_written(checksum: bytes) -> bytes:
    """Returns the checksum of a frame as it is in the file: big-endian, and native in the index."""
    return struct.pack(">II", *struct.unpack("=II", checksum))
