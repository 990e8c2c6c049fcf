"""The leases of an owner's shared tools: bounded in number, and each for a limited time."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from archon.call_window import CallWindow
from archon.errors import LeaseExpired, ResourceExhausted
from archon.types.task_ref import TaskRef

LEASE_SECONDS: Final = 600.0
MAX_LEASE_SECONDS: Final = 3600.0
"""Seconds of a lease by default, and at most."""

MAX_LEASES: Final = 4_096
"""Leases of all tools of an owner. Above it the one that was used least recently makes room, if it was not used for
IDLE_SECONDS."""

IDLE_SECONDS: Final = 60.0

SHOWN: Final = 8
"""Characters of a lease's id in logs: who knows the whole id may use the lease."""


@dataclass(slots=True, eq=False)
class Lease:
    """The right to execute one tool until `expires_at` (monotonic clock). `task` and `instance_id` are the claims of
    its holder, for the log."""

    lease_id: str
    tool_name: str
    expires_at: float
    task: TaskRef | None
    instance_id: str
    window: CallWindow | None
    used_at: float
    calls: int = field(default=0)
    """Calls in progress."""

    @property
    def shown(self) -> str:
        """The id as logs show it."""
        return self.lease_id[:SHOWN]


class LeaseTable:
    """The leases that are in force, in the order of their last use."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._leases: OrderedDict[str, Lease] = OrderedDict()

    def __len__(self) -> int:
        return len(self._leases)

    def all(self) -> list[Lease]:
        """Returns the leases that were not removed, also expired ones until `expire`."""
        return list(self._leases.values())

    def grant(self, tool_name: str, seconds: float, rate: int, task: TaskRef | None, instance_id: str) -> Lease:
        """Adds a lease. Raises ResourceExhausted, with a delay, if there are too many."""
        now = self._clock()
        if len(self._leases) >= MAX_LEASES:
            self._make_room(now)
        window = CallWindow(rate, self._clock) if rate else None
        lease = Lease(secrets.token_urlsafe(24), tool_name, now + seconds, task, instance_id, window, now)
        self._leases[lease.lease_id] = lease
        return lease

    def find(self, lease_id: str) -> Lease:
        """Returns a lease, which counts as its use. Raises LeaseExpired if it is not in force."""
        lease = self._leases.get(lease_id)
        if lease is not None and lease.expires_at <= self._clock():
            del self._leases[lease_id]
            lease = None
        if lease is None:
            raise LeaseExpired("the lease of the tool has expired, was revoked, or never existed: lease the tool again")
        lease.used_at = self._clock()
        self._leases.move_to_end(lease_id)
        return lease

    def remove(self, lease_id: str) -> Lease | None:
        """Removes a lease; returns it, or None if it is not in force."""
        return self._leases.pop(lease_id, None)

    def of_tool(self, tool_name: str) -> list[Lease]:
        """Returns the leases of a tool."""
        return [lease for lease in self._leases.values() if lease.tool_name == tool_name]

    def expire(self) -> list[Lease]:
        """Removes the leases that have expired, and returns them."""
        now = self._clock()
        expired = [lease for lease in self._leases.values() if lease.expires_at <= now]
        for lease in expired:
            del self._leases[lease.lease_id]
        return expired

    def clear(self) -> None:
        """Removes all leases."""
        self._leases.clear()

    def _make_room(self, now: float) -> None:
        if self.expire():
            return
        oldest = next((lease for lease in self._leases.values() if not lease.calls), None)
        idle = now - oldest.used_at if oldest is not None else 0.0
        if oldest is None or idle < IDLE_SECONDS:
            delay = max(1.0, IDLE_SECONDS - idle)
            raise ResourceExhausted(f"this instance has {MAX_LEASES:,} leases of tools in use", retry_delay=delay)
        del self._leases[oldest.lease_id]
