"""Reads and changes hooks in the journal. A change is made again if another replica was first."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from archon.errors import DataLoss, Unavailable, UnknownHook
from archon_services.orchestrator.hooks.codec import (
    KIND,
    delivery_from_row,
    delivery_to_row,
    hook_from_row,
    hook_to_row,
)
from archon_services.orchestrator.hooks.hook import NAME, Delivery, DeliveryState, Hook
from archon_services.orchestrator.journal import Journal, TriggerRow

_log = logging.getLogger(__name__)

TRIES: Final = 20
"""Changes of a hook by others during one change of it, after which the call fails."""


class HookStore:
    """The hooks of a journal. `now` returns its wall time. Raises the errors of the journal."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        self.journal = journal
        self.now = now

    async def find(self, tenant: str, name: str) -> Hook | None:
        """Returns a hook, None if there is none. One that cannot be read counts as none, with a line in the log."""
        row = await self.journal.trigger(tenant, KIND, _storable(name))
        return None if row is None else _readable(row)

    async def get(self, tenant: str, name: str) -> Hook:
        """Returns a hook. Raises UnknownHook, and DataLoss if it cannot be read."""
        return (await self._read(tenant, name))[0]

    async def page(self, tenant: str, after: str, limit: int) -> list[Hook]:
        """Returns hooks with names above `after`, by name. One that cannot be read is left out."""
        rows = await self.journal.triggers(tenant, KIND, after, limit)
        return [hook for row in rows if (hook := _readable(row)) is not None]

    async def count(self, tenant: str) -> int:
        """Returns the number of hooks of a tenant."""
        return await self.journal.trigger_count(tenant, KIND)

    async def add(self, hook: Hook) -> bool:
        """Stores a new hook. Returns False if its name is taken."""
        return await self.journal.put_trigger(hook_to_row(hook, 1))

    async def change(self, tenant: str, name: str, edit: Callable[[Hook], Hook]) -> tuple[Hook, bool]:
        """Changes a hook by `edit`, which may be called several times. Returns the hook, and whether it was changed.
        Raises UnknownHook, and Unavailable if others change it all the time."""
        for attempt in range(TRIES):
            hook, revision = await self._read(tenant, name)
            edited = edit(hook)
            if edited == hook:
                return hook, False
            if await self.journal.put_trigger(hook_to_row(edited, revision + 1)):
                return edited, True
            await asyncio.sleep(0.002 * attempt)
        raise _busy(name)

    async def delete(self, tenant: str, name: str) -> None:
        """Deletes a hook and its deliveries, whatever is stored in it. Raises UnknownHook and Unavailable as
        `change`."""
        for attempt in range(TRIES):
            row = await self._row(tenant, name)
            if await self.journal.delete_trigger(tenant, KIND, name, row.revision):
                return
            await asyncio.sleep(0.002 * attempt)
        raise _busy(name)

    async def deliveries(self, tenant: str, name: str, before: int, limit: int) -> list[Delivery]:
        """Returns deliveries, the newest first, with numbers below `before` unless that is 0. Raises UnknownHook."""
        await self._row(tenant, name)
        return [delivery_from_row(row) for row in await self.journal.fires(tenant, KIND, name, before, limit)]

    async def record(self, hook: Hook, deliveries: Sequence[Delivery], counts: Counter[DeliveryState]) -> None:
        """Stores deliveries of a hook in place of those with their keys, and adds `counts` to the hook's. Does nothing
        if it was deleted. Raises Unavailable as `change`."""
        keys = list(dict.fromkeys(each.key for each in deliveries))
        for attempt in range(TRIES):
            try:
                present, revision = await self._read(hook.tenant, hook.name)
            except UnknownHook:
                return
            if present.uid != hook.uid:
                return
            rows = await self.journal.fires_by_id(hook.tenant, KIND, hook.name, keys)
            stored = {row.fire_id: row.number for row in rows}
            number = present.number
            numbered = []
            for delivery in deliveries:
                if delivery.key not in stored:
                    number += 1
                    stored[delivery.key] = number
                numbered.append(replace(delivery, number=stored[delivery.key]))
            edited = _counted(replace(present, number=number), deliveries, counts)
            latest = {each.key: delivery_to_row(each) for each in numbered}
            if await self.journal.put_trigger(hook_to_row(edited, revision + 1), list(latest.values())):
                return
            await asyncio.sleep(0.002 * attempt)
        raise _busy(hook.name)

    async def claim(self, hook: Hook, delivery: Delivery) -> Delivery:
        """Stores the first delivery of a key, durable on return, or returns the one that came first within the replay
        window of the hook. Raises UnknownHook if it was deleted, and Unavailable as `change`."""
        for attempt in range(TRIES):
            present, revision = await self._read(hook.tenant, hook.name)
            if present.uid != hook.uid:
                raise _unknown(hook.name)
            rows = await self.journal.fires_by_id(hook.tenant, KIND, hook.name, [delivery.key])
            first = delivery_from_row(rows[0]) if rows else None
            if first is not None and delivery.received - first.received < hook.replay_window:
                return first
            number = first.number if first is not None else present.number + 1
            claimed = replace(delivery, number=number)
            edited = replace(present, number=max(present.number, number))
            if await self.journal.put_trigger(hook_to_row(edited, revision + 1), [delivery_to_row(claimed)]):
                return claimed
            await asyncio.sleep(0.002 * attempt)
        raise _busy(hook.name)

    async def _read(self, tenant: str, name: str) -> tuple[Hook, int]:
        row = await self._row(tenant, name)
        return hook_from_row(row), row.revision

    async def _row(self, tenant: str, name: str) -> TriggerRow:
        row = await self.journal.trigger(tenant, KIND, _storable(name))
        if row is None:
            raise _unknown(name)
        return row


def _counted(hook: Hook, deliveries: Sequence[Delivery], counts: Counter[DeliveryState]) -> Hook:
    return replace(
        hook,
        accepted=hook.accepted + counts[DeliveryState.ACCEPTED],
        repeated=hook.repeated + counts[DeliveryState.REPEATED],
        ignored=hook.ignored + counts[DeliveryState.IGNORED],
        refused=hook.refused + counts[DeliveryState.REFUSED],
        last_delivery=max([hook.last_delivery, *(each.received for each in deliveries)]),
    )


def _storable(name: str) -> str:
    """Returns the name, empty if no hook can have it: a store takes no such text."""
    return name if NAME.fullmatch(name) else ""


def _unknown(name: str) -> UnknownHook:
    return UnknownHook(f"there is no hook {name[:100]!r}", metadata={"hook": name[:100]})


def _busy(name: str) -> Unavailable:
    return Unavailable(f"the hook {name} changes all the time", retry_delay=1.0)


def _readable(row: TriggerRow) -> Hook | None:
    try:
        return hook_from_row(row)
    except DataLoss as error:
        _log.error("%s", error)
        return None
