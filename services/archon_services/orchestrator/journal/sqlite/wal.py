"""The write-ahead log (WAL) of the SQLite journal: checkpoints, and a file that is used again instead of growing.

An fsync of a file that has grown writes its new size too, which costs more than half as much again. The file therefore
keeps its size across checkpoints, and with `full` it is extended before it is needed.

Source: https://www.sqlite.org/walformat.html (the WAL header, the frame header)
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from archon_services.common.sqlite_writer import SqliteWriter

_log = logging.getLogger(__name__)

CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""Bytes in use from which on the WAL is written back into the database."""

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file that a checkpoint truncates instead of keeping it: a reader has stopped the checkpoints before."""

RESERVE: Final = 16 * CHECKPOINT_BYTES
"""Free bytes of a disk below which the file is not extended before it is needed."""

_PART: Final = 1024 * 1024
_HEADER: Final = 32
_FRAME_HEADER: Final = 24


class WriteAheadLog:
    """Of an open journal. `connect` opens a further connection to it. All methods block."""

    def __init__(
        self, journal: Path, writer: SqliteWriter, connect: Callable[[], sqlite3.Connection], *, preextend: bool
    ) -> None:
        self._path = Path(f"{journal}-wal")
        self._writer = writer
        self._connect = connect
        self._preextend = preextend
        self._written_back = (b"", 0)
        """The result of `in_use` after the last checkpoint: the next commit begins anew, unless a reader is there."""

    def keep(self) -> None:
        """Extends the file if `preextend` is set, and writes it back if CHECKPOINT_BYTES are in use."""
        if not self._path.exists():
            return
        if self._preextend:
            self._extend()
        found = in_use(self._path)
        if found[1] >= CHECKPOINT_BYTES and found != self._written_back:
            self._writer.exit_if_replaced()  # a checkpoint would fill the gap of a truncated file, and hide it
            self._write_back()

    def _write_back(self) -> None:
        with closing(self._connect()) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # most of it, while commits go on
            mode = "TRUNCATE" if self._path.stat().st_size > LARGEST else "RESTART"
            with self._writer.held():  # a commit on the event loop would block it until the checkpoint is over
                ((is_busy, _, _),) = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
                self._written_back = (b"", 0) if is_busy else in_use(self._path)

    def _extend(self) -> None:
        """Appends zeros, which SQLite takes for the end of the log. It writes at offsets of its own: the zeros at the
        end of the file never lie over a frame."""
        missing = CHECKPOINT_BYTES - self._path.stat().st_size
        disk = os.statvfs(self._path)
        if missing <= 0 or disk.f_bavail * disk.f_frsize < RESERVE:
            return
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            for start in range(0, missing, _PART):  # in parts: an fsync of a commit waits for unwritten data
                os.write(file, bytes(min(_PART, missing - start)))
                os.fdatasync(file)
        except OSError as error:
            _log.warning("the write-ahead log %s is not extended: %s", self._path, error)
            self._preextend = False
        finally:
            os.close(file)


def in_use(path: Path) -> tuple[bytes, int]:
    """Returns the salts of a write-ahead log and how many of its bytes are in use: its frames with these salts. Frames
    of earlier rounds, which have others, follow them."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
        frame = _FRAME_HEADER + int.from_bytes(header[8:12], "big")
        low, high = 0, max(0, os.fstat(file.fileno()).st_size - _HEADER) // frame
        salts = header[16:24]
        while low < high:
            middle = (low + high) // 2
            file.seek(_HEADER + middle * frame)
            if file.read(_FRAME_HEADER)[8:16] == salts:
                low = middle + 1
            else:
                high = middle
    return salts, low * frame
