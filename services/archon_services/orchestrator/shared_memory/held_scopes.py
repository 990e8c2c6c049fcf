"""The scopes whose next publication failed: they wait apart from the others; it is given up in the end."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from dataclasses import dataclass
from typing import Final

from archon.errors import DeadlineExceeded, ResourceExhausted, Unavailable

MAX_FAILURES: Final = 8
"""Failures of one publication while others succeed, after which it is given up."""

MOST_FAILURES: Final = 100
"""Failures of one publication that the memory service refused itself, after which it is given up in any case."""

OUTAGES: Final = (Unavailable, DeadlineExceeded, ResourceExhausted)
"""Errors that say more of the memory service than of a publication."""


@dataclass(slots=True)
class _Held:
    row_id: int
    tries: int = 0
    failures: int = 0
    """Failures that say something of the publication."""

    seen: int = 0
    """The number of all publications at the last failure."""


class HeldScopes:
    """Counts the failures of the publication that each of these scopes waits for."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._published = 0

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, scope: object) -> bool:
        return scope in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._held))

    @property
    def scopes(self) -> KeysView[str]:
        """The scopes."""
        return self._held.keys()

    @property
    def tries(self) -> int:
        """The tries of the scope that was tried least."""
        return min((held.tries for held in self._held.values()), default=0)

    def failed(self, scope: str, row_id: int, error: Exception) -> bool:
        """Counts a failure of a publication. Returns whether to give it up.

        An error that an outage explains counts only if another publication succeeded since the last failure.
        """
        held = self._held.get(scope)
        if held is None or held.row_id != row_id:
            held = self._held[scope] = _Held(row_id, seen=self._published)
        held.tries += 1
        is_alone = self._published > held.seen
        if isinstance(error, OUTAGES):
            held.failures += is_alone
            held.seen = self._published
            return held.failures >= MAX_FAILURES
        held.failures += 1
        return held.failures >= (MAX_FAILURES if is_alone else MOST_FAILURES)

    def succeeded(self) -> None:
        """Notes that something was published, in any scope."""
        self._published += 1

    def free(self, scope: str) -> None:
        """Ends the wait of a scope. Idempotent."""
        self._held.pop(scope, None)
