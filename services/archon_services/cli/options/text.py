"""What a person says: as an argument, on standard input, in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.client import Goal


def read_given(text: str, file: Path | None, what: str, *, hint: str) -> Goal:
    """`text`, or what standard input has where it is `-`; with a file that is added to it, or is all of it. `what` is
    what it is called where it is missing. Raises CliError."""
    if text == "-":
        text = decoded(sys.stdin.buffer.read(), "standard input")
    if file is None:
        if not text.strip():
            raise CliError(f"there is no {what}", hint=hint, code=USAGE)
        return text
    try:
        content = decoded(file.read_bytes(), str(file))
    except OSError as error:
        raise CliError(f"{file} can't be read: {error.strerror}", code=USAGE) from error
    if not text.strip():
        if not content.strip():
            raise CliError(f"{file} is empty, so there is no {what}", code=USAGE)
        return content
    from archon.api.common.v1 import common_pb2

    return [common_pb2.Part(text=text), common_pb2.Part(text=content, filename=file.name)]


def decoded(content: bytes, source: str) -> str:
    """Raises CliError where it is no text."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is no text in UTF-8", code=USAGE) from error
