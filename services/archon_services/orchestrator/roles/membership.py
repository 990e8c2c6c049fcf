"""Which instances are alive: those that the registry lists and, for a grace period, those that it has just lost.

After an outage of the registry or of etcd all leases have expired, and for a moment the registry lists no instance. An
instance whose session continues is expected to register again: until then a new run still finds its roles and edges.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from archon.registry import Graph, Registration, RegistryChange

GRACE: Final = 15.0
"""Seconds that a lost instance still counts as alive: longer than an agent needs to register again."""


class Membership:
    """The registered instances and the graph, with a grace period for lost instances whose session continues.

    `alive` tells whether an instance's session is connected and accepts tasks; `grace` is in seconds. `instances` and
    `graph` are computed once per change; `version` counts the changes.
    """

    def __init__(
        self,
        alive: Callable[[str], bool],
        monotonic: Callable[[], float] = time.monotonic,
        *,
        grace: float = GRACE,
    ) -> None:
        self.registered: dict[str, Registration] = {}
        self._alive = alive
        self._monotonic = monotonic
        self._grace = grace
        self._graph = Graph()
        self._previous_graph = Graph()
        self._missed: dict[str, tuple[Registration, float]] = {}
        """Lost instances and the end of their grace period, in monotonic seconds."""
        self._instances: dict[str, Registration] = {}
        self._version = 0

    def update(self, change: RegistryChange) -> None:
        """Applies one message of the registry's Watch."""
        before, previous_graph = dict(self.registered), self.graph
        if change.snapshot:
            self.registered.clear()
        for instance in change.instances:
            self.registered[instance.instance_id] = instance
            self._missed.pop(instance.instance_id, None)
        for instance_id in change.removed:
            self.registered.pop(instance_id, None)
        for instance_id in before.keys() - self.registered.keys():
            self._missed[instance_id] = before[instance_id], self._monotonic() + self._grace
        if change.graph is not None:
            self._graph = change.graph
        self._previous_graph = previous_graph
        self._rebuild()

    @property
    def version(self) -> int:
        """Changes whenever `instances` or `graph` may have changed."""
        self._drop_dead()
        return self._version

    @property
    def instances(self) -> Mapping[str, Registration]:
        """The instances that count as alive, by id."""
        self._drop_dead()
        return self._instances

    @property
    def graph(self) -> Graph:
        """The graph of the registry; while an instance is missed, the graph before its loss."""
        self._drop_dead()
        return self._previous_graph if self._missed else self._graph

    def _drop_dead(self) -> None:
        """Ends the grace of missed instances that are overdue or whose session has ended."""
        if not self._missed:
            return
        now = self._monotonic()
        missed = {
            instance_id: (instance, until)
            for instance_id, (instance, until) in self._missed.items()
            if now < until and self._alive(instance_id)
        }
        if len(missed) < len(self._missed):
            self._missed = missed
            self._rebuild()

    def _rebuild(self) -> None:
        missed = {instance_id: instance for instance_id, (instance, _) in self._missed.items()}
        self._instances = {**missed, **self.registered}
        self._version += 1
