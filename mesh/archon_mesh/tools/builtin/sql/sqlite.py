"""Queries of SQLite files, each answered by `sqlite_read` in a process with limits of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from typing_extensions import override

from archon.errors import DeadlineExceeded, InvalidArgument, ResourceExhausted
from archon.failure_kinds import TOOL_RESOURCES, TOOL_TIMEOUT
from archon_mesh.limited import LimitedProcesses, LimitExceeded
from archon_mesh.tools.builtin.sql.database import Address, Column, Database, Rows, Scalar

MB: Final = 1024 * 1024

MEMORY_BYTES: Final = 256 * MB
"""Memory of a query."""

FILE_BYTES: Final = 1024 * MB
"""Bytes of a temporary file, in which SQLite sorts."""

AT_ONCE: Final = 8
"""Queries of all files at the same time. Others wait."""

_processes: Final = LimitedProcesses(
    "archon_mesh.tools.builtin.sql.sqlite_read", memory_bytes=MEMORY_BYTES, at_once=AT_ONCE, file_bytes=FILE_BYTES
)


class SqliteDatabase(Database):
    """A file of SQLite. Each query has a connection of its own, in another process."""

    def __init__(self, address: Address) -> None:
        """Raises InvalidArgument unless the URL is sqlite:///PATH, without options."""
        path = unquote(address.path.removeprefix("/"))
        if not path or ":memory:" in path or address.query or "\0" in path:
            raise InvalidArgument("invalid database URL: expected sqlite:///PATH, without options")
        self._path = Path(path).absolute()

    @override
    async def query(self, sql: str, parameters: Sequence[Scalar], seconds: float) -> Rows:
        read = await self._read(sql, parameters, seconds)
        return Rows(read["columns"], read["rows"], read["truncated"])

    @override
    async def columns(self, seconds: float) -> list[Column]:
        return [Column(*row) for row in await self._read(None, (), seconds)]

    async def _read(self, sql: str | None, parameters: Sequence[Scalar], seconds: float) -> Any:
        request = {
            "path": str(self._path),
            "name": self._path.name,
            "sql": sql,
            "parameters": list(parameters),
            "seconds": seconds,
        }
        try:
            return await _processes.call_on_thread(request, cpu_seconds=seconds, seconds=seconds)
        except LimitExceeded as error:
            if error.limit in ("time", "cpu"):
                raise DeadlineExceeded(f"the query takes longer than {seconds:g} s", kind=TOOL_TIMEOUT) from None
            limit = f"{MEMORY_BYTES // MB} MiB of memory"
            if error.limit == "files":
                limit = f"{FILE_BYTES // MB} MiB of temporary files"
            raise ResourceExhausted(f"the query takes more than {limit}", kind=TOOL_RESOURCES) from None
