"""Which instances are alive: those that the registry lists and, for a grace period, those that it has just lost.

After an outage of the registry or of etcd all leases have expired, and for a moment the registry lists no instance. An
instance whose session continues is expected to register again: until then a new run still finds its roles and edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from archon.clock import monotonic
from archon.registry import Graph, Registration, RegistryChange

GRACE: Final = 15.0
"""Seconds that a lost instance still counts as alive: longer than an agent needs to register again."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The fields of an instance that the selection of roles uses. Instances of one role mostly have the same."""

    role: str
    version: str
    description: str
    coordinator: bool
    all_ancestors: bool
    planner: bool
    capability_ids: tuple[str, ...]

    @staticmethod
    def of(instance: Registration) -> Offer:
        """Returns the offer of an instance."""
        return Offer(
            instance.role,
            instance.version,
            instance.description,
            instance.coordinator,
            instance.all_ancestors,
            instance.planner,
            tuple(capability.id for capability in instance.capabilities),
        )


class Membership:
    """The registered instances and the graph, with a grace period for lost instances whose session continues.

    `alive` tells whether an instance's session is connected and accepts tasks; `grace` is in seconds. Most changes of
    instances concern no role: `version` counts those that may change `offers` or `graph`.
    """

    def __init__(
        self,
        alive: Callable[[str], bool],
        monotonic: Callable[[], float] = monotonic,
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
        self._offers: Counter[Offer] = Counter()
        """How many of these instances offer the same."""
        self._version = 0

    def update(self, change: RegistryChange) -> tuple[str, ...]:
        """Applies one message of the registry's Watch. Returns the ids of the instances that are no longer registered.
        Costs in proportion to the message."""
        previous_graph = self.graph
        present = {instance.instance_id for instance in change.instances} if change.snapshot else set()
        gone = self.registered.keys() - present if change.snapshot else self.registered.keys() & set(change.removed)
        until = self._monotonic() + self._grace
        for instance_id in gone:
            self._missed[instance_id] = self.registered.pop(instance_id), until
        for instance in change.instances:
            self.registered[instance.instance_id] = instance
            self._missed.pop(instance.instance_id, None)
            self._put(instance)
        if change.graph is not None:
            self._version += change.graph.edges != self._graph.edges or change.graph.roles != self._graph.roles
            self._graph = change.graph
        self._version += bool(gone)  # the graph may be the previous one now
        self._previous_graph = previous_graph
        return tuple(gone)

    @property
    def version(self) -> int:
        """Changes whenever `offers` or `graph` may have changed."""
        self._drop_dead()
        return self._version

    @property
    def instances(self) -> Mapping[str, Registration]:
        """The instances that count as alive, by id."""
        self._drop_dead()
        return self._instances

    @property
    def offers(self) -> Collection[Offer]:
        """The distinct offers of the instances that count as alive."""
        self._drop_dead()
        return self._offers.keys()

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
        ended = [
            instance_id
            for instance_id, (_, until) in self._missed.items()
            if now >= until or not self._alive(instance_id)
        ]
        for instance_id in ended:
            del self._missed[instance_id]
            self._withdraw(self._instances.pop(instance_id))
        if ended and not self._missed:
            self._version += 1  # the graph is the registry's again

    def _put(self, instance: Registration) -> None:
        previous = self._instances.get(instance.instance_id)
        self._instances[instance.instance_id] = instance
        offer = Offer.of(instance)
        if previous is not None and Offer.of(previous) == offer:
            return
        self._version += offer not in self._offers
        self._offers[offer] += 1
        if previous is not None:
            self._withdraw(previous)

    def _withdraw(self, instance: Registration) -> None:
        offer = Offer.of(instance)
        self._offers[offer] -= 1
        if not self._offers[offer]:
            del self._offers[offer]
            self._version += 1
