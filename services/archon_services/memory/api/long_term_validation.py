"""Validation of requests of long-term memory that the library does not check."""

from __future__ import annotations

from typing import Final

from archon.api.memory.v1 import long_term_memory_service_pb2 as pb
from archon_services.common.validation import Violations
from archon_services.memory.api.graph_validation import MAX_ID

MAX_RESTORED: Final = 1_000
"""Entries of one RestoreEntries."""


def entry_id(text: str) -> str:
    """Returns the id. Raises InvalidArgument if it is not one."""
    violations = Violations()
    violations.check(0 < len(text) <= MAX_ID and "\0" not in text, "entry_id", f"must be 1 to {MAX_ID} characters")
    violations.raise_if_any()
    return text


def request_id(text: str) -> None:
    """Raises InvalidArgument if the id is too long."""
    violations = Violations()
    violations.check(len(text) <= MAX_ID and "\0" not in text, "request_id", f"must be at most {MAX_ID} characters")
    violations.raise_if_any()


def restored(request: pb.RestoreEntriesRequest) -> pb.RestoreEntriesRequest:
    """Returns the request. Raises InvalidArgument if it has too many entries or negative counts."""
    violations = Violations()
    violations.check(len(request.entries) <= MAX_RESTORED, "entries", f"must be at most {MAX_RESTORED:,}")
    counts = [n for entry in request.entries for n in (entry.use_count, entry.useful_count, entry.not_useful_count)]
    violations.check(all(number >= 0 for number in counts), "entries", "must have counts of at least 0")
    violations.raise_if_any()
    return request
