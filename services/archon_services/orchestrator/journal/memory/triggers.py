"""Triggers of the journal in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from archon_services.orchestrator.journal.memory.owners import MemoryOwners
from archon_services.orchestrator.journal.triggers import MAX_FIRES, EndedFire, FireRow, TriggerRow

_Key = tuple[str, str, str]


class MemoryTriggers(MemoryOwners):
    """The TriggerStore part of MemoryJournal."""

    def __init__(self, *, shared: bool = False) -> None:
        super().__init__(shared=shared)
        self._triggers: dict[_Key, TriggerRow] = {}
        self._claimed: dict[_Key, str] = {}
        self._fires: dict[_Key, dict[str, FireRow]] = {}

    async def trigger(self, tenant: str, kind: str, name: str) -> TriggerRow | None:
        return self._triggers.get((tenant, kind, name))

    async def triggers(self, tenant: str, kind: str, after: str = "", limit: int = 100) -> list[TriggerRow]:
        rows = [row for row in self._triggers.values() if (row.tenant, row.kind) == (tenant, kind) and row.name > after]
        return sorted(rows, key=lambda row: row.name)[:limit]

    async def trigger_count(self, tenant: str, kind: str) -> int:
        return sum(1 for row in self._triggers.values() if (row.tenant, row.kind) == (tenant, kind))

    async def claim_triggers(self, kind: str, now: float, owner: str, limit: int) -> list[TriggerRow]:
        others = self._living.keys() - {owner}
        due = [row for row in self._triggers.values() if row.kind == kind and row.due <= now]
        free = [row for row in due if self._claimed.get(row.key, "") not in others]
        claimed = sorted(free, key=lambda row: (row.due, row.key))[:limit]
        self._claimed.update((row.key, owner) for row in claimed)
        return claimed

    async def next_due(self, kind: str) -> float:
        return min((row.due for row in self._triggers.values() if row.kind == kind), default=math.inf)

    async def put_trigger(self, row: TriggerRow, fires: Sequence[FireRow] = (), owner: str = "") -> bool:
        present = self._triggers.get(row.key)
        if (present.revision if present is not None else 0) != row.revision - 1:
            return False
        self._triggers[row.key] = row
        self._claimed[row.key] = owner
        stored = self._fires.setdefault(row.key, {})
        stored.update((fire.fire_id, fire) for fire in fires)
        if fires:
            newest = max(fire.number for fire in stored.values())
            for fire in [each for each in stored.values() if each.number <= newest - MAX_FIRES and not each.running]:
                del stored[fire.fire_id]
        return True

    async def delete_trigger(self, tenant: str, kind: str, name: str, revision: int) -> bool:
        key = (tenant, kind, name)
        present = self._triggers.get(key)
        if present is None or present.revision != revision:
            return False
        del self._triggers[key]
        self._claimed.pop(key, None)
        self._fires.pop(key, None)
        return True

    async def fires(self, tenant: str, kind: str, name: str, before: int = 0, limit: int = 100) -> list[FireRow]:
        rows = self._fires.get((tenant, kind, name), {}).values()
        chosen = [fire for fire in rows if not before or fire.number < before]
        return sorted(chosen, key=lambda fire: -fire.number)[:limit]

    async def fires_by_id(self, tenant: str, kind: str, name: str, fire_ids: Sequence[str]) -> list[FireRow]:
        rows = self._fires.get((tenant, kind, name), {})
        return [rows[fire_id] for fire_id in fire_ids if fire_id in rows]

    async def ended_fires(self, kind: str, limit: int) -> list[EndedFire]:
        ended: list[EndedFire] = []
        for (tenant, each, name), fires in self._fires.items():
            for fire in fires.values():
                if each != kind or not fire.running:
                    continue
                run = self._rows.get(fire.run_id)
                if run is None or run.ended_at:
                    ended.append(EndedFire(tenant, kind, name, fire.run_id, run.state if run is not None else 0))
        return ended[:limit]
