"""The files of a folder as resources."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.tools.mcp.serving.resources import (
    MAX_URI,
    ListedResource,
    ListedTemplate,
    ResourceProvider,
    check_size,
)

MAX_FILES: Final = 1_000
"""Files of a folder that are listed; further ones can be read."""

MAX_ENTRIES: Final = 20_000
"""Entries of a folder and the folders in it that are looked at for the list."""

_TYPES: Final = {
    ".md": "text/markdown",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".jsonl": "text/plain",
}


class ResourceFolder(ResourceProvider):
    """The files of a folder, and of the folders in it, under a URI: `ResourceFolder("docs://", "documents")` offers
    `documents/a/b.md` as `docs://a/b.md`.

    Hidden files and folders, whose names begin with a dot, and files that a symbolic link places outside of the folder
    are neither listed nor read.
    """

    def __init__(self, uri: str, path: str | os.PathLike[str], *, description: str = "") -> None:
        """Raises InvalidArgument if the URI is not one that ends with a slash, or if the path is not a folder."""
        self._uri = uri
        self._root = Path(path).resolve()
        self._description = description
        if not urlsplit(uri).scheme or not uri.endswith("/") or len(uri) > MAX_URI // 2 or set(uri) & set("{}?#"):
            raise InvalidArgument(f"invalid URI {uri!r} of a folder: expected a scheme, a path, and a slash at the end")
        if not self._root.is_dir():
            raise InvalidArgument(f"invalid folder {os.fspath(path)!r}: there is none")

    @override
    def resources(self) -> Sequence[ListedResource]:
        listed: list[ListedResource] = []
        for path in self._files():
            name = path.relative_to(self._root).as_posix()
            uri = f"{self._uri}{quote(name)}"
            inside = self._inside(name) if len(uri) <= MAX_URI else None
            if inside is None:
                continue
            with suppress(FileNotFoundError):  # it may be deleted meanwhile
                listed.append(ListedResource(uri, name, "", _type_of(path), inside.stat().st_size))
            if len(listed) == MAX_FILES:
                break
        return listed

    @override
    def templates(self) -> Sequence[ListedTemplate]:
        name = self._root.name or "files"
        return (ListedTemplate(f"{self._uri}{{+path}}", name, self._description or f"The files of the folder {name}."),)

    @override
    async def read(self, uri: str) -> Media | None:
        if not uri.startswith(self._uri) or len(uri) > MAX_URI:
            return None
        return await asyncio.to_thread(self._read, uri)

    @override
    async def completed(self, uri_template: str, argument: str, typed: str) -> list[str] | None:
        if uri_template != self.templates()[0].uri_template:
            return None
        names = [each.name for each in await asyncio.to_thread(self.resources)]
        return [name for name in names if name.startswith(typed)]

    def _read(self, uri: str) -> Media | None:
        path = self._inside(unquote(uri.removeprefix(self._uri)))
        if path is None:
            return None
        # The path has no symbolic link left; the flags are for one, or a pipe, that was put there since.
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            check_size(uri, status.st_size)
            data = file.read(status.st_size)
        return Media(data, _type_of(path))

    def _inside(self, name: str) -> Path | None:
        """Returns the real path of a file by its name within the folder, None if there is none that may be read."""
        parts = name.split("/")
        if "\\" in name or "\0" in name or any(part == "" or part.startswith(".") for part in parts):
            return None
        try:
            path = self._root.joinpath(*parts).resolve(strict=True)
            relative = path.relative_to(self._root)
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a circle of links
            return None
        if any(part.startswith(".") for part in relative.parts) or not path.is_file():
            return None
        return path

    def _files(self) -> Iterator[Path]:
        """Yields the files in order of their names, without those in folders behind symbolic links."""
        looked_at = 0
        for folder, folders, files in os.walk(self._root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                looked_at += 1
                if looked_at > MAX_ENTRIES:
                    return
                if not name.startswith("."):
                    yield Path(folder, name)
            looked_at += len(folders)


def _type_of(path: Path) -> str:
    known = _TYPES.get(path.suffix.lower())
    return known or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
