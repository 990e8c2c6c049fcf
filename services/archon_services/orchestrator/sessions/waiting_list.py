"""The tasks that wait for a free slot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from archon_mesh.core.run.types import Requirement


class WaitingList:
    """Callbacks by requirement, in the order in which they were added."""

    def __init__(self) -> None:
        self._roles: dict[str, dict[Requirement, OrderedDict[int, Callable[[], None]]]] = {}
        self._tickets = count(1)

    def add(self, requirement: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        """Adds a callback; returns a function that removes it, if it has not been called."""
        ticket = next(self._tickets)
        self._roles.setdefault(requirement.role, {}).setdefault(requirement, OrderedDict())[ticket] = wake
        return lambda: self._remove(requirement, ticket)

    def _remove(self, requirement: Requirement, ticket: int) -> None:
        queue = self._roles.get(requirement.role, {}).get(requirement)
        if queue is not None:
            queue.pop(ticket, None)
            self._drop_if_empty(requirement)

    def requirements(self, role: str) -> list[Requirement]:
        """The requirements on this role that callbacks wait for."""
        return list(self._roles[role]) if role in self._roles else []

    def sizes(self) -> dict[str, int]:
        """Returns the number of callbacks by role. Any thread may call it."""
        roles = {role: list(queues.values()) for role, queues in list(self._roles.items())}
        return {role: sum(len(queue) for queue in queues) for role, queues in roles.items()}

    def wake(self, requirement: Requirement, slots: int) -> None:
        """Calls and removes up to `slots` callbacks, those that were added first."""
        queue = self._roles.get(requirement.role, {}).get(requirement)
        if queue is None:
            return
        for _ in range(min(slots, len(queue))):
            _, wake = queue.popitem(last=False)
            wake()
        self._drop_if_empty(requirement)

    def _drop_if_empty(self, requirement: Requirement) -> None:
        requirements = self._roles.get(requirement.role)
        if requirements is None or requirements.get(requirement):
            return
        requirements.pop(requirement, None)
        if not requirements:
            del self._roles[requirement.role]
