"""This process's view of the registry: the latest state, the last changes, and the watchers that follow it.

A store reports each change (`apply`), or the whole state after a gap (`reset`). A watcher that resumes within the kept
changes gets those it missed; any other starts with a snapshot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from archon.api.registry.v1.registry_pb2 import Graph, RefusedEdge, Registration
from archon.errors import ArchonError
from archon_services.common.feed import MAX_QUEUED, Feed
from archon_services.registry.domain.edges import build_graph, instances_to_plan, keeps_graph, same_content
from archon_services.registry.domain.registration_tokens import is_claim, may_renew
from archon_services.registry.domain.state import Change, State, Update, changes_of, difference

HISTORY: Final = 1_000
"""Changes kept for watchers that resume."""


class RegistryView:
    """The state and graph that this process knows. `history` bounds the changes kept, `max_queued` those that wait for
    one watcher."""

    def __init__(self, *, history: int = HISTORY, max_queued: int = MAX_QUEUED) -> None:
        self.state = State()
        self.graph = Graph()
        """Its revision is the last change of the graph."""
        self.to_plan: frozenset[str] = frozenset()
        """The instances whose next renewal changes edges; any other renewal writes nothing."""
        self._refused: dict[str, list[RefusedEdge]] = {}
        """Refused edges by the instance that declares them."""
        self.ready = asyncio.Event()
        """Set while the view follows the store."""
        self._history: deque[Change] = deque(maxlen=history)
        self._oldest_resumable = 0
        """The earliest revision from which a watch can resume; 0 before the first reset."""
        self._feed = Feed[Change](max_queued=max_queued, resume_hint="from the last revision received")

    def apply(self, revision: int, update: Update) -> None:
        """Applies all changes of one revision of the store. Costs little if they leave the graph as it is."""
        state = self.state.with_update(update, revision)
        instances, removed = changes_of(update, self.state, state)
        self._advance_to(state, instances, removed, keeps_graph=keeps_graph(update, self.state, state))

    def reset(self, state: State) -> None:
        """Replaces the state after a gap. Watchers get the difference, or a snapshot if the store's revision went
        back."""
        if not self._oldest_resumable or state.revision < self.state.revision:
            self._set_state(state)
            self._history.clear()
            self._oldest_resumable = max(1, state.revision)
            self._feed.publish(self._snapshot())
        else:
            self._advance_to(state, *difference(self.state, state))
        self.ready.set()

    def unchanged(self, registration: Registration) -> Registration | None:
        """Returns the stored registration if registering this one writes nothing, else None."""
        current = self.state.instances.get(registration.instance_id)
        if current is None or registration.instance_id in self.to_plan or not same_content(current, registration):
            return None
        if is_claim(current, registration) or not may_renew(current, registration.owner):
            return None
        return current

    def refused_edges(self, instance_id: str) -> list[RefusedEdge]:
        """Returns the refused edges of an instance."""
        return self._refused.get(instance_id, [])

    def end_watches(self, error: ArchonError) -> None:
        """Ends all current watches with `error`."""
        self._feed.end(error)

    async def watch(self, from_revision: int = 0) -> AsyncGenerator[Change, None]:
        """Yields a snapshot or the changes since `from_revision`, then every change. Raises ResourceExhausted if the
        caller is too slow or there are too many watchers, and the error given to `end_watches`."""
        with self._feed.subscribe() as subscription:
            for change in self._first_changes(from_revision):
                yield change
            while True:
                yield await subscription.next()

    def _first_changes(self, from_revision: int) -> list[Change]:
        if self._oldest_resumable and self._oldest_resumable <= from_revision <= self.state.revision:
            return [change for change in self._history if change.revision > from_revision]
        return [self._snapshot()]

    def _snapshot(self) -> Change:
        graph = Graph()
        graph.CopyFrom(self.graph)
        graph.revision = self.state.revision
        return Change(self.state.revision, True, tuple(self.state.instances.values()), (), graph)

    def _set_state(self, state: State) -> None:
        self.state, self.graph = state, build_graph(state)
        self.to_plan = instances_to_plan(state, self.graph)
        self._refused = {}
        for refused in self.graph.refused:
            for instance_id in refused.edge.declared_by:
                self._refused.setdefault(instance_id, []).append(refused)

    def _advance_to(
        self,
        state: State,
        instances: tuple[Registration, ...],
        removed: tuple[Registration, ...],
        *,
        keeps_graph: bool = False,
    ) -> None:
        graph = None
        if keeps_graph:
            self.state = state
        else:
            old_graph = self.graph
            self._set_state(state)
            graph = None if _same_graph(old_graph, self.graph) else self.graph
        if not instances and not removed and graph is None:
            return
        if len(self._history) == self._history.maxlen:
            self._oldest_resumable = self._history[0].revision
        change = Change(state.revision, False, instances, removed, graph)
        self._history.append(change)
        self._feed.publish(change)


def _same_graph(old: Graph, new: Graph) -> bool:
    """Whether two graphs differ in nothing but their revision."""
    copy = Graph()
    copy.CopyFrom(old)
    copy.revision = new.revision
    return copy == new
