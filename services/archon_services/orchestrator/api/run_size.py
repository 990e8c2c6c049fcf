"""A run in an answer is bounded: what is larger than a peer takes would only fail there, and not say why."""

from __future__ import annotations

from typing import Final

from archon.api.orchestrator.v1 import run_pb2
from archon.channel import MAX_RECEIVE_BYTES
from archon.errors import ResourceExhausted

MAX_RUN_BYTES: Final = MAX_RECEIVE_BYTES - 64 * 1024


def bounded(run: run_pb2.Run) -> run_pb2.Run:
    """The run. Raises ResourceExhausted / MESSAGE_TOO_LARGE."""
    size = run.ByteSize()
    if size > MAX_RUN_BYTES:
        raise ResourceExhausted(
            f"run {run.run_id} has {size:,} bytes, at most {MAX_RUN_BYTES:,} go into an answer: watch it, each result "
            "comes by itself",
            reason="MESSAGE_TOO_LARGE",
            metadata={"run_id": run.run_id, "size": str(size), "limit": str(MAX_RUN_BYTES)},
        )
    return run
