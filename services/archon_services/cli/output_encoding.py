"""Characters that the encoding of standard output lacks, such as those outside of ASCII or cp1252: they are written as
escapes of JSON, so that texts can be read and JSON stays JSON."""

from __future__ import annotations

import codecs
import io
import sys
from typing import Final

NAME: Final = "archon-json-escapes"


def escape_what_streams_lack() -> None:
    """Has standard output and standard error write every text. Idempotent."""
    codecs.register_error(NAME, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not is_unicode(stream.encoding):
            stream.reconfigure(errors=NAME)


def is_unicode(encoding: str) -> bool:
    """Whether an encoding has all characters."""
    return encoding.lower().replace("-", "").replace("_", "").startswith("utf")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end
