"""Text and files from command line arguments, from standard input, or from files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.submission import Goal
    from archon.types import Part


def read_goal(text: str, files: Sequence[Path], name: str, *, hint: str) -> Goal:
    """Returns `text`, or standard input if it is `-`, plus a part for each file: its text, or its bytes and media type
    if it is an image, audio, or another file of a known type. A text file alone is the goal.

    Raises CliError as `read_text` does, if a file is empty or of no known type, or if the files are too large for a
    message.
    """
    if text == "-":
        text = decode_utf8(sys.stdin.buffer.read(), "standard input")
    if not files:
        return read_text(text, None, name, hint=hint)
    from archon.types import Part
    from archon.wire import CONTENT_ROOM, MAX_CHECKED_BYTES

    parts, room = [Part(text=text)] if text.strip() else [], MAX_CHECKED_BYTES - CONTENT_ROOM
    room -= sum(part.proto.ByteSize() for part in parts)
    for file in files:
        part = _file_part(file, room, is_alone=len(files) == 1 and not parts, name=name)
        room -= part.proto.ByteSize()
        parts.append(part)
    return parts[0].text if len(parts) == 1 and parts[0].text is not None else parts


def _file_part(file: Path, room: int, *, is_alone: bool, name: str) -> Part:
    from archon.types import Part
    from archon_mesh.core.media_types import TEXTUAL, UNKNOWN, type_of_file

    try:
        with file.open("rb") as opened:
            data = opened.read(room + 1)
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=USAGE) from error
    if len(data) > room:
        raise CliError(
            f"{file} is too large: {max(room, 0):,} bytes are left of what a {name} may have",
            hint="A role reads larger files from a URL, or with tools of its own.",
            code=USAGE,
        )
    if not data.strip():
        raise CliError(f"missing {name}: {file} is empty" if is_alone else f"{file} is empty", code=USAGE)
    if (media_type := type_of_file(file.name, data)) == UNKNOWN:
        raise CliError(f"{file} is not UTF-8 text, nor of a type that its name or its first bytes tell", code=USAGE)
    if not TEXTUAL.match(media_type):
        return Part(raw=data, filename=file.name, media_type=media_type)
    content = decode_utf8(data, str(file))
    return Part(text=content) if is_alone else Part(text=content, filename=file.name)


def read_text(text: str, file: Path | None, name: str, *, hint: str) -> Goal:
    """Returns `text`, or standard input if it is `-`, plus the content of `file` as a second part.

    `name` is the word for the text in error messages, such as "goal". Raises CliError if there is no text at all, or
    if an input cannot be read or is not UTF-8.
    """
    if text == "-":
        text = decode_utf8(sys.stdin.buffer.read(), "standard input")
    if file is None:
        if not text.strip():
            raise CliError(f"missing {name}", hint=hint, code=USAGE)
        return text
    try:
        content = decode_utf8(file.read_bytes(), str(file))
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=USAGE) from error
    if not text.strip():
        if not content.strip():
            raise CliError(f"missing {name}: {file} is empty", code=USAGE)
        return content
    from archon.types import Part

    return [Part(text=text), Part(text=content, filename=file.name)]


def decode_utf8(content: bytes, source: str) -> str:
    """Decodes `content`, without a byte order mark. Raises CliError if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not UTF-8 text", code=USAGE) from error
