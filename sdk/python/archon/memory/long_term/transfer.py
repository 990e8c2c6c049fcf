"""Exports entries to one file and reads them back: a JSON object per line, and a checksum of all lines at the end."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from archon.errors import DataLoss, InvalidArgument, NotFound
from archon.memory.long_term.entry import LongTermEntry
from archon.private_files import private_file

FORMAT: Final = "archon-long-term/1"
BATCH: Final = 200
"""Entries that are read at a time."""

_MAX_LINE: Final = 1024 * 1024


def entry_to_json(entry: LongTermEntry) -> dict[str, Any]:
    """Returns an entry as JSON, without its vector: another store may have another embedder."""
    return {
        "id": entry.id,
        "content": entry.content,
        "create_time": entry.create_time,
        "metadata": dict(entry.metadata),
        "importance": entry.importance,
        "use_count": entry.use_count,
        "last_used": entry.last_used,
        "useful": entry.useful,
        "not_useful": entry.not_useful,
        "archived": entry.archived,
        "checksum": entry.checksum,
    }


def entry_from_json(data: Mapping[str, Any]) -> LongTermEntry:
    """Reads an entry. Raises DataLoss if it is malformed or its checksum is wrong."""
    try:
        entry = LongTermEntry(
            id=str(data["id"]),
            content=str(data["content"]),
            create_time=float(data["create_time"]),
            metadata={str(key): str(value) for key, value in data["metadata"].items()},
            importance=float(data["importance"]),
            use_count=int(data["use_count"]),
            last_used=None if data["last_used"] is None else float(data["last_used"]),
            useful=int(data["useful"]),
            not_useful=int(data["not_useful"]),
            archived=bool(data["archived"]),
            checksum=str(data["checksum"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataLoss(f"malformed entry ({type(error).__name__}: {error})") from None
    if not entry.is_intact:
        raise DataLoss(f"the checksum of the entry {entry.id} is wrong")
    return entry


async def write_entries(file: Path, pages: AsyncIterator[Sequence[LongTermEntry]]) -> int:
    """Writes all entries and returns their number. The file, with mode 0600, appears when it is complete."""
    temporary = file.with_name(f"{file.name}.part")
    await asyncio.to_thread(_begin, temporary)
    try:
        with await asyncio.to_thread(temporary.open, "r+b") as output:
            writer = _Writer(output)
            await asyncio.to_thread(writer.line, {"format": FORMAT})
            async for page in pages:
                await asyncio.to_thread(writer.entries, page)
            await asyncio.to_thread(writer.finish)
        await asyncio.to_thread(os.replace, temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    return writer.count


async def read_entries(file: Path) -> AsyncIterator[list[LongTermEntry]]:
    """Yields batches of entries, after the whole file was checked.

    Raises NotFound, InvalidArgument if it is not an export, and DataLoss if the file or an entry was changed.
    """
    await asyncio.to_thread(check, file)
    with await asyncio.to_thread(file.open, "rb") as source:
        lines = _entry_lines(source)
        while batch := await asyncio.to_thread(lambda: list(islice(lines, BATCH))):
            yield [entry_from_json(data) for data in batch]


def check(file: Path) -> int:
    """Returns the number of entries of an export. Raises the errors of `read_entries`."""
    digest = hashlib.sha256()
    count, end = -1, None
    try:
        with file.open("rb") as source:
            while line := source.readline(_MAX_LINE):
                if end is not None:
                    raise DataLoss(f"{file}: there are lines after the end")
                data = _parse(file, line)
                if count < 0 and data.get("format") != FORMAT:
                    raise InvalidArgument(f"{file} is not an export of long-term memory")
                if "sha256" in data:
                    end = data
                    continue
                digest.update(line)
                count += 1
    except OSError as error:
        raise NotFound(f"cannot read {file}: {error.strerror}") from None
    if end is None or end.get("sha256") != digest.hexdigest() or end.get("entries") != count:
        raise DataLoss(f"{file}: the export is incomplete or was changed (its checksum is wrong)")
    return count


def _begin(temporary: Path) -> None:
    temporary.unlink(missing_ok=True)
    private_file(temporary)


def _parse(file: Path, line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise DataLoss(f"{file}: a line is not JSON") from None
    if not isinstance(data, dict):
        raise DataLoss(f"{file}: a line is not an object")
    return data


def _entry_lines(source: BinaryIO) -> Iterator[dict[str, Any]]:
    for line in islice(source, 1, None):
        data: dict[str, Any] = json.loads(line)
        if "sha256" not in data:
            yield data


class _Writer:
    def __init__(self, output: BinaryIO) -> None:
        self._output = output
        self._digest = hashlib.sha256()
        self.count = 0

    def line(self, data: Mapping[str, Any]) -> None:
        line = (json.dumps(data, ensure_ascii=False) + "\n").encode()
        self._digest.update(line)
        self._output.write(line)

    def entries(self, page: Sequence[LongTermEntry]) -> None:
        for entry in page:
            self.line(entry_to_json(entry))
        self.count += len(page)

    def finish(self) -> None:
        end = {"sha256": self._digest.hexdigest(), "entries": self.count}
        self._output.write((json.dumps(end) + "\n").encode())
        self._output.flush()
        os.fsync(self._output.fileno())
