"""Media types of files, by their first bytes, their names, and the declared types."""

from __future__ import annotations

import mimetypes
import re
from typing import Final

UNKNOWN: Final = "application/octet-stream"
"""The type of a file that is not known."""

TEXTUAL: Final = re.compile(r"text/|application/(json|xml|yaml|x-yaml|javascript)$|.*\+(json|xml)$")
"""Media types whose files are text."""

_SAME: Final = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/mp3": "audio/mpeg",
    "audio/x-mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "application/x-pdf": "application/pdf",
}
"""Spellings that senders use, and the registered ones, which providers require."""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_WEAK: Final = 4
"""Letters of a signature that a text may begin with, too: it counts only if a zero byte follows soon."""


def sniffed_type(data: bytes) -> str | None:
    """Returns the media type that the first bytes of a file tell; None if they tell none."""
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(bytes(data[8:12]))
    for signature, media_type in _SIGNATURES:
        if data.startswith(signature):
            is_weak = signature.isascii() and len(signature) <= _WEAK
            return media_type if not is_weak or b"\0" in data[:16] else None
    return None


def canonical_type(media_type: str) -> str:
    """Returns a media type without parameters, in lower case and in its registered spelling."""
    plain = media_type.partition(";")[0].strip().lower()
    return _SAME.get(plain, plain) or UNKNOWN


def type_of_file(name: str, data: bytes) -> str:
    """Returns the media type of a file: by its first bytes, else one of text if it is UTF-8 without zero bytes, else by
    the end of its name."""
    if (sniffed := sniffed_type(data)) is not None:
        return sniffed
    guessed = type_of_name(name)
    if b"\0" not in data and _is_utf8(data):
        return guessed if TEXTUAL.match(guessed) else "text/plain"
    return UNKNOWN if TEXTUAL.match(guessed) else guessed


def type_of_name(name: str) -> str:
    """Returns the media type that the end of a name tells."""
    return canonical_type(mimetypes.guess_type(name, strict=False)[0] or UNKNOWN)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
