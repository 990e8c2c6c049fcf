"""Cuts results that are too large for a model, and says how much was left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.failure_kinds import TOOL_CRASH
from archon_mesh.core.media import Media

MAX_OUTPUT_BYTES: Final = 256 * 1024
"""Bytes of text, or of a JSON value as text, unless the tool declares another limit."""

MAX_MEDIA_BYTES: Final = 8 * 1024 * 1024
"""Bytes of the files of a result, unless the tool declares another limit. Those with a text, which a model reads, have
the limit of texts."""

CUT: Final = "archon.cut"
"""The key of a result's metadata that says at how many bytes it was cut."""

MAX_METADATA_BYTES: Final = 16 * 1024
"""Bytes of the metadata that a tool sets, as JSON."""


def limited(content: Any, limit: int | None) -> tuple[Any, int]:
    """Returns the content and its size in bytes. A larger content becomes text that ends with a note; a value that is
    not JSON becomes its JSON form.

    Raises InvalidArgument if the content has no JSON form.
    """
    if isinstance(content, str):
        return _limited_text(content, limit or MAX_OUTPUT_BYTES)
    if any(True for _ in Media.among(content)):
        return _limited_files(content, limit)
    if content is None or isinstance(content, (bool, int, float)):
        return content, 8
    others: list[object] = []

    def as_text(value: object) -> str:
        others.append(value)
        return str(value)

    try:
        text = json.dumps(content, ensure_ascii=False, default=as_text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the result is not a JSON value: {error}", kind=TOOL_CRASH) from None
    kept, size = _limited_text(text, limit or MAX_OUTPUT_BYTES)
    if kept is not text:
        return kept, size
    return (json.loads(text) if others else content), size


def _limited_text(text: str, limit: int) -> tuple[str, int]:
    if len(text) * 4 <= limit:
        return text, len(text) * 4  # at most: a character has one to four bytes
    encoded = text[: limit + 1].encode(errors="replace")
    if len(text) <= limit and len(encoded) <= limit:
        return text, len(encoded)
    kept = encoded[:limit].decode(errors="ignore")
    left_out = len(text) - len(kept)
    shown = f"{kept}\n[{left_out:,} of {len(text):,} characters left out: the limit of the tool is {limit:,} bytes]"
    return shown, limit


def _limited_files(content: Any, limit: int | None) -> tuple[Any, int]:
    items: Sequence[Any] = content if isinstance(content, (list, tuple)) else (content,)
    maxima = {True: limit or MAX_OUTPUT_BYTES, False: limit or MAX_MEDIA_BYTES}
    sizes = {True: 0, False: 0}
    kept: list[Any] = []
    for item in items:
        if not isinstance(item, Media):
            kept.append(item)
            continue
        is_text = item.text is not None
        if sizes[is_text] + len(item.data) > maxima[is_text]:
            kept.append(f"{item.label} left out: the limit of the tool is {maxima[is_text]:,} bytes")
        else:
            sizes[is_text] += len(item.data)
            kept.append(item)
    rest = [item for item in kept if not isinstance(item, Media)]
    text, text_size = limited(rest, limit)
    if isinstance(text, str):  # cut: one text in place of all that is not a file
        kept = [*(item for item in kept if isinstance(item, Media)), text]
    return (kept if isinstance(content, (list, tuple)) else kept[0]), sum(sizes.values()) + text_size
