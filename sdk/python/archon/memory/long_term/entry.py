"""Entries of long-term memory, the results of a search, and the limits of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Final

from archon.errors import FieldViolation, InvalidArgument, ResourceExhausted

MAX_CONTENT_BYTES: Final = 64 * 1024
"""Bytes of an entry's text in UTF-8."""

MAX_METADATA: Final = 32
"""Keys of an entry's metadata."""

MAX_METADATA_KEY: Final = 64
"""Characters of a key of the metadata."""

MAX_METADATA_VALUE: Final = 1_024
"""Characters of a value of the metadata."""

MAX_QUERY_BYTES: Final = 16 * 1024
"""Bytes of a query in UTF-8."""

MAX_LIMIT: Final = 100
"""Entries that a query returns."""

DEFAULT_LIMIT: Final = 5
DEFAULT_THRESHOLD: Final = 0.7
DEFAULT_IMPORTANCE: Final = 0.5


class EmbeddingState(StrEnum):
    """EMBEDDED: the entry is found by meaning. PENDING: it is found by words, and embedded later."""

    PENDING = "pending"
    EMBEDDED = "embedded"


class Source(StrEnum):
    """How an entry was found: by vectors and words together, by words alone, or as one of the most recent."""

    HYBRID = "hybrid"
    KEYWORD = "keyword"
    RECENT = "recent"


@dataclass(frozen=True, slots=True)
class LongTermEntry:
    """A text that outlives runs. Times are in seconds since the Unix epoch.

    `importance` is from 0 to 1. `useful` and `not_useful` count the feedback. `embedder` names the embedder of the
    stored vector, empty if there is none. `checksum` covers id, text, time and metadata, which never change.
    """

    id: str
    content: str
    create_time: float
    metadata: Mapping[str, str] = field(default_factory=dict)
    importance: float = DEFAULT_IMPORTANCE
    use_count: int = 0
    last_used: float | None = None
    useful: int = 0
    not_useful: int = 0
    archived: bool = False
    embedder: str = ""
    checksum: str = ""

    @property
    def embedding(self) -> EmbeddingState:
        """Whether the entry has a vector."""
        return EmbeddingState.EMBEDDED if self.embedder else EmbeddingState.PENDING

    @property
    def is_intact(self) -> bool:
        """Whether the checksum matches the content."""
        return self.checksum == checksum_of(self.id, self.content, self.create_time, self.metadata)


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry that a query found. `score`, from 0 to 1, is its similarity to the query."""

    entry: LongTermEntry
    score: float
    source: Source = Source.HYBRID

    @property
    def content(self) -> str:
        """The text of the entry."""
        return self.entry.content


@dataclass(frozen=True, slots=True)
class LongTermStats:
    """Counts of one tenant's entries. `pending` of the active entries wait for their embedding; `damaged` entries are
    set aside because their checksum is wrong; `waiting` are in the outbox; `bytes` is the size of all texts."""

    active: int = 0
    archived: int = 0
    pending: int = 0
    damaged: int = 0
    waiting: int = 0
    bytes: int = 0


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def checksum_of(entry_id: str, content: str, create_time: float, metadata: Mapping[str, str]) -> str:
    """Returns the SHA-256 of an entry's immutable fields, in hex."""
    parts = [entry_id, content, round(create_time * 1e6), sorted(metadata.items())]
    return hashlib.sha256(_encode(parts).encode()).hexdigest()


def check_content(content: Any) -> str:
    """Returns the text.

    Raises InvalidArgument if it is empty or not a text, ResourceExhausted (MESSAGE_TOO_LARGE) above MAX_CONTENT_BYTES.
    """
    size = _size(content, "content")
    if not content.strip() or "\0" in content:
        raise _invalid("content", "must be a text that is not empty, without U+0000")
    if size > MAX_CONTENT_BYTES:
        raise ResourceExhausted(
            f"the text has {size:,} bytes, more than the limit of {MAX_CONTENT_BYTES:,}",
            reason="MESSAGE_TOO_LARGE",
            metadata={"size": str(size), "limit": str(MAX_CONTENT_BYTES)},
            field_violations=[FieldViolation("content", "too large")],
        )
    return str(content)


def check_metadata(metadata: Mapping[str, str] | None, name: str = "metadata") -> dict[str, str]:
    """Returns a copy. Raises InvalidArgument if a key or value is not a text or exceeds its limit."""
    pairs = dict(metadata or {})
    if len(pairs) > MAX_METADATA:
        raise _invalid(name, f"must have at most {MAX_METADATA} keys")
    for key, value in pairs.items():
        _size(key, name)
        _size(value, name)
        if not 0 < len(key) <= MAX_METADATA_KEY or len(value) > MAX_METADATA_VALUE or "\0" in key + value or "=" in key:
            raise _invalid(
                name,
                f"must have keys of 1 to {MAX_METADATA_KEY} characters without '=' and values of at most "
                f"{MAX_METADATA_VALUE} characters",
            )
    return pairs


def check_importance(importance: Any) -> float:
    """Returns the number. Raises InvalidArgument unless it is from 0 to 1."""
    return _fraction(importance, "importance")


def check_threshold(threshold: Any) -> float:
    """Returns the number. Raises InvalidArgument unless it is from 0 to 1."""
    return _fraction(threshold, "threshold")


def check_query(query_text: Any) -> str:
    """Returns the text. Raises InvalidArgument if it is empty, not a text, or exceeds MAX_QUERY_BYTES."""
    if _size(query_text, "query") > MAX_QUERY_BYTES or not query_text.strip():
        raise _invalid("query", f"must be a text of 1 to {MAX_QUERY_BYTES:,} bytes")
    return str(query_text)


def check_limit(limit: Any, most: int = MAX_LIMIT) -> int:
    """Returns the number. Raises InvalidArgument unless it is from 1 to `most`."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= most:
        raise _invalid("limit", f"must be from 1 to {most:,}")
    return limit


def _fraction(value: Any, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not 0 <= value <= 1:
        raise _invalid(name, "must be a number from 0 to 1")
    return float(value)


def _size(text: Any, name: str) -> int:
    """Returns the bytes of a text in UTF-8. Raises InvalidArgument if it is not a text."""
    try:
        return len(text.encode())
    except (AttributeError, UnicodeEncodeError):
        raise _invalid(name, "must be a text") from None


def _invalid(name: str, description: str) -> InvalidArgument:
    return InvalidArgument(f"{name} {description}", field_violations=[FieldViolation(name, description)])
