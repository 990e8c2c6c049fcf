"""Whether a database file has all pages that it should have: a truncated file has fewer than its header says.

Source: https://www.sqlite.org/fileformat2.html (the database header, the WAL format). The header in the file counts the
pages as of the last checkpoint. A checkpoint that was interrupted may have written it before it extended the file; the
pages that are missing are in the WAL then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100
_WAL_HEADER: Final = 32
_FRAME_HEADER: Final = 24


def missing_pages(path: Path, *, with_wal: bool) -> str:
    """Says how many bytes of how many a file has; empty if no page is missing, or if the file is no database.
    `with_wal` tells whether pages in the WAL count as present."""
    with path.open("rb") as file:
        header = file.read(_HEADER)
        size = os.fstat(file.fileno()).st_size
    if len(header) < _HEADER:
        return f"it has {size:,} bytes"
    if not header.startswith(_MAGIC) or header[24:28] != header[92:96]:  # else the count of pages may be outdated
        return ""
    page = _number(header[16:18])
    page = 65536 if page == 1 else page
    pages = _number(header[28:32])
    missing = range(size // page + 1, pages + 1)
    if not missing:
        return ""
    found = _pages_of_wal(Path(f"{path}-wal"), page) if with_wal else set()
    if all(number in found for number in missing):
        return ""
    return f"it has {size:,} of {pages * page:,} bytes"


def _pages_of_wal(wal: Path, page: int) -> set[int]:
    """Returns the numbers of the pages in a WAL that is not in use."""
    pages: set[int] = set()
    if not wal.exists():
        return pages
    with wal.open("rb") as file:
        salts = file.read(_WAL_HEADER)[16:24]
        while len(frame := file.read(_FRAME_HEADER)) == _FRAME_HEADER and frame[8:16] == salts:
            pages.add(_number(frame[:4]))
            file.seek(page, os.SEEK_CUR)
    return pages


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big")
