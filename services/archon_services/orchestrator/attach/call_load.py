"""The relayed calls in progress, of one instance or of all: bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from archon.errors import ResourceExhausted

MAX_CALLS: Final = 64
MAX_BYTES: Final = 32 * 1024 * 1024
"""Calls of one instance in progress or waiting for a stream, and the bytes of their requests."""

MAX_CALLS_OF_ALL: Final = 2_000
MAX_BYTES_OF_ALL: Final = 256 * 1024 * 1024
"""The same, of all instances that are attached here."""

RETRY_DELAY: Final = 1.0
"""Seconds after which a call that found no place may be made again."""


class CallLoad:
    """Counts calls and the bytes of their requests."""

    def __init__(self) -> None:
        self.calls = 0
        self.bytes = 0

    @contextmanager
    def holding(self, size: int, calls: int, total: int, of: str) -> Iterator[None]:
        """Counts a call of `size` bytes within the block. Raises ResourceExhausted above `calls` calls, or above
        `total` bytes unless the call is the only one."""
        if self.calls >= calls or (self.calls and self.bytes + size > total):
            raise ResourceExhausted(
                f"{self.calls:,} calls of {of} with {self.bytes:,} bytes are being relayed, which is the limit",
                metadata={"begun": "false"},
                retry_delay=RETRY_DELAY,
            )
        self.calls += 1
        self.bytes += size
        try:
            yield
        finally:
            self.calls -= 1
            self.bytes -= size
