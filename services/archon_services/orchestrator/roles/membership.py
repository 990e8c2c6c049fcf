"""Who lives. The registry says so; whom it lost while his session goes on is believed to come back for a while.

After an outage of the registry or of etcd leases have run out, and for a moment the registry knows nobody: a run that
is submitted then must not find its roles unknown, nor a pipeline without its edges.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from archon.registry import Graph, Registration, RegistryChange

GRACE: Final = 15.0
"""Seconds: longer than an agent takes to register again."""


class Membership:
    """`alive` says whether an instance's session goes on and takes tasks."""

    def __init__(self, alive: Callable[[str], bool], monotonic: Callable[[], float] = time.monotonic) -> None:
        self.registered: dict[str, Registration] = {}
        self._alive = alive
        self._monotonic = monotonic
        self._graph = Graph()
        self._graph_before = Graph()
        self._missed: dict[str, tuple[Registration, float]] = {}

    def update(self, change: RegistryChange) -> None:
        """Applies one message of the registry's Watch."""
        before, graph_before = dict(self.registered), self.graph
        if change.snapshot:
            self.registered.clear()
        for instance in change.instances:
            self.registered[instance.instance_id] = instance
            self._missed.pop(instance.instance_id, None)
        for instance_id in change.removed:
            self.registered.pop(instance_id, None)
        for instance_id in before.keys() - self.registered.keys():
            self._missed[instance_id] = before[instance_id], self._monotonic() + GRACE
        if change.graph is not None:
            self._graph = change.graph
        self._graph_before = graph_before

    def _believed(self) -> dict[str, Registration]:
        now = self._monotonic()
        self._missed = {
            name: (instance, until)
            for name, (instance, until) in self._missed.items()
            if now < until and self._alive(name)
        }
        return {name: instance for name, (instance, _) in self._missed.items()}

    @property
    def instances(self) -> dict[str, Registration]:
        """By id: those that are registered, and those that are believed to be again."""
        return {**self._believed(), **self.registered}

    @property
    def graph(self) -> Graph:
        """The registry's; while somebody is missed, as it stood before."""
        return self._graph_before if self._believed() else self._graph
