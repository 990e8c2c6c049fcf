"""Files inside one folder as tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from archon.errors import InvalidArgument, PermissionDenied
from archon_mesh.tools.builtin.folder import Folder
from archon_mesh.tools.tool import Tool

READ_BYTES: Final = 64 * 1024
"""Bytes of a file that one call returns."""

WRITE_BYTES: Final = 1024 * 1024
MAX_ENTRIES: Final = 1_000
"""Entries of a folder that one call returns."""

_PATH: Final = {"type": "string", "description": "path inside the folder, such as notes/today.md"}


def _schema(required: list[str], **properties: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class _InFolder(Tool):
    def __init__(self, root: str | Path) -> None:
        """Raises FailedPrecondition if `root` is not a folder."""
        self.folder = Folder(root)


class ReadFile(_InFolder):
    """Reads text files (UTF-8) inside `root`; long ones part by part."""

    name = "read_file"
    description = f"Reads a text file, up to {READ_BYTES // 1024} KiB from an offset on."
    parameters_schema = _schema(
        ["path"], path=_PATH, offset={"type": "integer", "minimum": 0, "description": "bytes to skip, 0 by default"}
    )
    idempotent = True

    @override
    async def execute(self, **kwargs: Any) -> str:
        """Returns the text, with a note if there is more. Raises the errors of Folder.read, PermissionDenied for a file
        that is no text."""
        path, offset = kwargs["path"], int(kwargs.get("offset", 0))  # 5.0 is an integer of JSON, too
        data, size = await asyncio.to_thread(self.folder.read, path, offset, READ_BYTES)
        text = _decoded(data, path, is_first=offset == 0, is_last=offset + len(data) >= size)
        end = offset + len(data)
        return text if end >= size else f"{text}\n\n[{size - end:,} more bytes from offset {end:,} on]"


class WriteFile(_InFolder):
    """Creates and replaces text files (UTF-8) inside `root`.

    Dangerous: it is available only where a policy allows it by name.
    """

    name = "write_file"
    description = f"Creates or replaces a text file of up to {WRITE_BYTES // 1024} KiB, and the folders of its path."
    parameters_schema = _schema(["path", "content"], path=_PATH, content={"type": "string"})
    dangerous = True
    idempotent = True
    max_input_bytes = 8 * WRITE_BYTES

    @override
    async def execute(self, **kwargs: Any) -> str:
        """Raises the errors of Folder.write, InvalidArgument if the content is too large or no text."""
        path = kwargs["path"]
        try:
            data = kwargs["content"].encode()
        except UnicodeEncodeError:
            raise InvalidArgument("the content has characters that are no text") from None
        if len(data) > WRITE_BYTES:
            raise InvalidArgument(f"the content has {len(data):,} bytes, at most {WRITE_BYTES:,} are allowed")
        await asyncio.to_thread(self.folder.write, path, data)
        return f"wrote {len(data):,} bytes to {path}"


class ListFiles(_InFolder):
    """Lists a folder inside `root`."""

    name = "list_files"
    description = "Lists the files and folders of a folder, with the sizes of files in bytes."
    parameters_schema = _schema(
        [], path={"type": "string", "description": "a folder inside the folder; by default itself"}
    )
    idempotent = True

    @override
    async def execute(self, **kwargs: Any) -> dict[str, Any]:
        """Returns `folders` (names), `files` (name to bytes) and `more`, whether there are further entries. Raises the
        errors of Folder.entries."""
        entries, more = await asyncio.to_thread(self.folder.entries, kwargs.get("path", ""), MAX_ENTRIES)
        return {
            "folders": [name for name, size in entries if size is None],
            "files": {name: size for name, size in entries if size is not None},
            "more": more,
        }


def _decoded(data: bytes, path: str, *, is_first: bool, is_last: bool) -> str:
    """Returns the text. A character that the bounds of the part cut in two is left out."""
    start = 0
    while not is_first and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    for cut in range(1 if is_last else 4):
        try:
            return data[start : len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
    raise PermissionDenied(f"{path} is not a text file (UTF-8)")
