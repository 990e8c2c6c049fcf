"""Results by idempotency key, so that a repeated call does not act a second time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from archon.api.tool.v1 import tool_pb2
from archon.errors import RequestIdReused
from archon.tools.owner.execution import Execution

MAX_KEPT: Final = 10_000
MAX_KEPT_BYTES: Final = 32 * 1024 * 1024
KEPT_SECONDS: Final = 3600.0
"""Results that are kept by their keys, their bytes, and how long; the oldest are forgotten first."""

Key = tuple[str, ...]
"""Tool, run, task or lease, and idempotency key."""


@dataclass(slots=True)
class _Kept:
    digest: bytes
    outcome: Execution | tool_pb2.ToolResult
    at: float
    size: int = 0


class KeptResults:
    """The executions in progress and the results of calls that had a key."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Key, _Kept] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: Key, digest: bytes) -> Execution | tool_pb2.ToolResult | None:
        """Returns the execution in progress, or the result, of an earlier call with this key; None if there was none.
        Raises RequestIdReused if that call had other arguments."""
        kept = self._kept.get(key)
        if kept is not None and not isinstance(kept.outcome, Execution) and kept.at + KEPT_SECONDS <= self._clock():
            self.forget(key)
            kept = None
        if kept is None:
            return None
        if kept.digest != digest:
            raise RequestIdReused(f"the idempotency key {key[-1]!r} was used before with other arguments")
        return kept.outcome

    def begin(self, key: Key, digest: bytes, execution: Execution) -> None:
        """Notes the execution of a call."""
        self._kept[key] = _Kept(digest, execution, self._clock())

    def keep(self, key: Key, result: tool_pb2.ToolResult) -> None:
        """Keeps the result in place of the execution, and forgets the oldest ones above the bounds."""
        kept = self._kept.get(key)
        if kept is None:
            return
        kept.outcome, kept.at, kept.size = result, self._clock(), result.ByteSize() + sum(map(len, key)) + 200
        self._bytes += kept.size
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT or self._bytes > MAX_KEPT_BYTES:
            oldest = next((each for each, one in self._kept.items() if not isinstance(one.outcome, Execution)), None)
            if oldest is None:
                return
            self.forget(oldest)

    def forget(self, key: Key) -> None:
        """Forgets a key: the next call with it is executed."""
        if (kept := self._kept.pop(key, None)) is not None:
            self._bytes -= kept.size
