"""Ids of spans. They are derived from ids in the journal, so that a replica that takes over a run continues its trace,
and spans that are exported again are the same spans."""

from __future__ import annotations

from hashlib import blake2b


def trace_id(run_id: str) -> str:
    """Returns the trace of a run that continues no other trace: 32 hexadecimal digits."""
    return _hash(run_id, 16)


def run_span_id(run_id: str) -> str:
    """Returns the span of a run: 16 hexadecimal digits."""
    return _hash(f"run/{run_id}", 8)


def attempt_span_id(run_id: str, task_id: str, attempt: int) -> str:
    """Returns the span of an attempt: 16 hexadecimal digits."""
    return _hash(f"attempt/{run_id}/{task_id}/{attempt}", 8)


def decision_span_id(run_id: str, task_id: str) -> str:
    """Returns the span of a decision by rule: 16 hexadecimal digits."""
    return _hash(f"decision/{run_id}/{task_id}", 8)


def _hash(text: str, size: int) -> str:
    return blake2b(text.encode(), digest_size=size).hexdigest()
