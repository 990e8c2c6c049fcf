"""Text from a command line argument, from standard input, or from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from archon_services.cli.errors import USAGE, CliError

if TYPE_CHECKING:
    from archon.client import Goal


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
    from archon.api.common.v1 import common_pb2

    return [common_pb2.Part(text=text), common_pb2.Part(text=content, filename=file.name)]


def decode_utf8(content: bytes, source: str) -> str:
    """Decodes `content`. Raises CliError if it is not UTF-8."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not UTF-8 text", code=USAGE) from error
