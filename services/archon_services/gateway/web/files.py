"""The built files of the web page, read once and compressed."""

from __future__ import annotations

import gzip
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).with_name("dist")
INDEX: Final = "index.html"
_COMPRESSED: Final = frozenset({".html", ".js", ".css", ".svg", ".json"})
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file: its content, the same content with gzip (None if that is not shorter), and its media type."""

    content: bytes
    compressed: bytes | None
    media_type: str


def read_files(folder: Path = FOLDER) -> Mapping[str, PageFile]:
    """Returns the files by their paths in the folder, such as `assets/index-B7aMGw7D.js`; none if it was not built."""
    if not (folder / INDEX).is_file():
        return {}
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): _read(path) for path in paths}


def document_time(folder: Path = FOLDER) -> int:
    """Returns the time at which the document was built, in nanoseconds since 1970; 0 if it was not built."""
    try:
        return (folder / INDEX).stat().st_mtime_ns
    except OSError:
        return 0


def _read(path: Path) -> PageFile:
    content = path.read_bytes()
    compressed = gzip.compress(content, 9, mtime=0) if path.suffix in _COMPRESSED else content
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return PageFile(content, compressed if len(compressed) < len(content) else None, media_type)
