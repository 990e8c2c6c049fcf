"""Stored triggers, which submit runs, and their fires: a trigger is one row that changes as a whole.

A change is stored under the condition that the trigger has the revision that its writer has read, together with the
fires that it makes. So of all replicas that decide about a trigger at the same time one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from archon_mesh.core.value import value

MAX_FIRES: Final = 1_000
"""Fires of a trigger that are kept besides those whose run is in progress; the oldest are deleted."""


@value
class TriggerRow:
    """A trigger of a tenant; `kind` and `name` identify it. `revision` counts its changes from 1. `due` is when a
    replica must look at it, in wall seconds; infinite if nothing is due. `data` is its content."""

    tenant: str
    kind: str
    name: str
    revision: int
    due: float
    data: bytes

    @property
    def key(self) -> tuple[str, str, str]:
        """The primary key: tenant, kind and name."""
        return self.tenant, self.kind, self.name


@value
class FireRow:
    """A fire of a trigger. `number` counts its fires from 1, `run_id` is its run, empty if it has none, and `running`
    tells whether the end of the run is awaited."""

    fire_id: str
    number: int
    run_id: str
    running: bool
    data: bytes


@value
class EndedFire:
    """A fire whose run has ended; `state` is the number of the run's TaskState, 0 if the run was deleted."""

    tenant: str
    kind: str
    name: str
    run_id: str
    state: int


class TriggerStore(Protocol):
    """The part of a journal that keeps triggers. Raises the errors of the journal."""

    async def trigger(self, tenant: str, kind: str, name: str) -> TriggerRow | None:
        """Returns a trigger, None if there is none."""
        ...

    async def triggers(self, tenant: str, kind: str, after: str = "", limit: int = 100) -> list[TriggerRow]:
        """Returns triggers of a tenant with names above `after`, by name."""
        ...

    async def trigger_count(self, tenant: str, kind: str) -> int:
        """Returns the number of triggers of a tenant."""
        ...

    async def claim_triggers(self, kind: str, now: float, owner: str, limit: int) -> list[TriggerRow]:
        """Returns triggers that are due, those due first at the beginning, and gives them to `owner` until their next
        change. Leaves out those that another live incarnation has claimed, or is claiming at the moment."""
        ...

    async def next_due(self, kind: str) -> float:
        """Returns when the next trigger is due (wall seconds), infinite if none is."""
        ...

    async def put_trigger(self, row: TriggerRow, fires: Sequence[FireRow] = (), owner: str = "") -> bool:
        """Stores a trigger in place of the one whose revision is one less, 0 standing for none, and its fires in place
        of the fires with their ids, in one transaction, durable on return. From then on `owner` has claimed it; it is
        free if that is empty. Returns False, and stores nothing, if it has another revision. Keeps the MAX_FIRES
        newest fires, and those that are running."""
        ...

    async def delete_trigger(self, tenant: str, kind: str, name: str, revision: int) -> bool:
        """Deletes a trigger and its fires. Returns False, and deletes nothing, if it has another revision."""
        ...

    async def fires(self, tenant: str, kind: str, name: str, before: int = 0, limit: int = 100) -> list[FireRow]:
        """Returns fires, the one with the highest number first: those below the number `before`, or all if it is 0."""
        ...

    async def fires_by_id(self, tenant: str, kind: str, name: str, fire_ids: Sequence[str]) -> list[FireRow]:
        """Returns the fires of these ids that exist, in any order."""
        ...

    async def ended_fires(self, kind: str, limit: int) -> list[EndedFire]:
        """Returns running fires whose run has ended or does not exist."""
        ...
