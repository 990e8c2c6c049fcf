"""A group of publishes: its rows are read at once, changed in memory, and written at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy
from archon_services.memory.domain.items import NewItem, Publish, Published, StoredItem
from archon_services.memory.store.postgres.columns import columns

Key = tuple[Any, ...]


class PublishGroup:
    """The stored rows that a group of publishes needs, and the changes to write."""

    def __init__(self) -> None:
        self.requests: dict[Key, tuple[bytes, list[Published], float]] = {}
        self.events: dict[Key, tuple[int, float]] = {}
        self.earlier: dict[Key, float] = {}
        self.last: dict[Key, tuple[int, int]] = {}
        self.items: dict[Key, dict[tuple[str, str], tuple[int, StoredItem | None]]] = {}
        """(last version, current item) by policy and task, by (tenant, scope, role)."""
        self.new_requests: set[Key] = set()
        self.new_events: set[Key] = set()
        self.new_items: dict[Key, StoredItem] = {}
        """By (tenant, scope, role, policy, task), in the order of the last publish of each."""

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.new_requests or self.new_events or self.new_items)

    def load_requests(self, rows: Iterable[Any]) -> None:
        """Loads the rows of REQUESTS."""
        for tenant, request_id, payload_hash, results_json in rows:
            results = [Published(*result) for result in json.loads(results_json)]
            self.requests[tenant, request_id] = (payload_hash, results, 0.0)

    def load_events(self, rows: Iterable[Any]) -> None:
        """Loads the rows of EVENTS."""
        for row in rows:
            if row[6] is not None:
                self.events[tuple(row[:6])] = (row[6], float("inf"))
            self.last[tuple(row[:4])] = (row[7], row[8])

    def load_items(self, rows: Iterable[Any], now: float) -> None:
        """Loads the rows of ITEMS. Expired items count as deleted. A row comes once for each task that publishes."""
        for row in rows:
            is_current = row[5] is not None and (row[2] is None or row[2] > now)
            of_role = self.items.setdefault((row[0], row[1], row[3]), {})
            key = row[7], row[12]
            if is_current or key not in of_role:
                of_role[key] = (row[4], read_item(row[3:]) if is_current else None)

    def write_arguments(self) -> list[list[Any]]:
        """Returns the arguments of WRITE but the first."""
        requests = [
            (*key, self.requests[key][0], _results_json(self.requests[key][1]), self.requests[key][2])
            for key in self.new_requests
        ]
        return [
            *columns([(*key, expires_at) for key, expires_at in self.earlier.items()], 5),
            *columns([(*key, *self.events[key]) for key in self.new_events], 8),
            *columns(requests, 5),
            *columns([_item_row(key, stored) for key, stored in self.new_items.items()], 13),
        ]


@dataclass(slots=True)
class GroupRows:
    """Implements `publishing.Rows`: the view that one publish has of its group. `merge` makes its changes part of the
    group; without it they are discarded."""

    group: PublishGroup
    tenant: str
    scope: str
    _requests: dict[Key, tuple[bytes, list[Published], float]] = field(default_factory=dict)
    _events: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _earlier: dict[Key, float] = field(default_factory=dict)
    _last: dict[Key, tuple[int, int]] = field(default_factory=dict)
    _items: dict[Key, StoredItem] = field(default_factory=dict)

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        record = self.group.requests.get((self.tenant, request_id))
        return record[:2] if record is not None else None

    def version_of(self, new: NewItem) -> int | None:
        key = (self.tenant, self.scope, new.run_id, new.role, new.epoch, new.seq)
        record = self._events.get(key) or self.group.events.get(key)
        return record[0] if record is not None else None

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        key = (self.tenant, self.scope, run_id, role)
        return self._last.get(key) or self.group.last.get(key)

    def items(self, role: str, task_id: str) -> list[tuple[int, StoredItem | None]]:
        key = (self.tenant, self.scope, role)
        own = {each[3:]: (stored.item.version, stored) for each, stored in self._items.items() if each[:3] == key}
        rows = {**self.group.items.get(key, {}), **own}
        return [(version, stored if each[1] == task_id else None) for each, (version, stored) in rows.items()]

    def put_item(self, stored: StoredItem) -> None:
        item = stored.item
        key = (self.tenant, self.scope, item.source_id, item.policy.value, item.task_id)
        _drop_other_runs(self._items, key, stored)
        self._items.pop(key, None)  # the order follows the last publish
        self._items[key] = stored

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        key = (self.tenant, self.scope, new.run_id, new.role)
        for event, (published_version, expiry) in self._events.items():
            if event[:4] == key:
                self._events[event] = (published_version, min(expiry, earlier_expire_at))
        self._earlier[key] = min(self._earlier.get(key, earlier_expire_at), earlier_expire_at)
        self._events[*key, new.epoch, new.seq] = (version, expires_at)
        self._last[key] = (new.epoch, new.seq)

    def put_request(self, request_id: str, payload_hash: bytes, results: list[Published], expires_at: float) -> None:
        self._requests[self.tenant, request_id] = (payload_hash, results, expires_at)

    def merge(self) -> None:
        """Adds the changes to the group."""
        group = self.group
        for key, earlier in self._earlier.items():
            for event, (version, expiry) in group.events.items():
                if event[:4] == key:
                    group.events[event] = (version, min(expiry, earlier))
            group.earlier[key] = min(group.earlier.get(key, earlier), earlier)
        group.requests.update(self._requests)
        group.events.update(self._events)
        group.last.update(self._last)
        group.new_requests |= self._requests.keys()
        group.new_events |= self._events.keys()
        for key, stored in self._items.items():
            group.items.setdefault(key[:3], {})[key[3:]] = (stored.item.version, stored)
            _drop_other_runs(group.new_items, key, stored)
            group.new_items.pop(key, None)
            group.new_items[key] = stored


def _drop_other_runs(items: dict[Key, StoredItem], key: Key, stored: StoredItem) -> None:
    """Drops the items that another run has published under the same role and policy."""
    for other in [each for each, held in items.items() if each[:4] == key[:4] and held.run_id != stored.run_id]:
        del items[other]


def read_arguments(publishes: Sequence[tuple[Publish, float]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Returns the arguments of REQUESTS, EVENTS and ITEMS for publishes and their times."""
    requests = {(request.tenant, request.request_id, now) for request, now in publishes if request.request_id}
    items = {
        (request.tenant, request.scope, new.role, new.task_id) for request, _ in publishes for new in request.items
    }
    events = {
        (request.tenant, request.scope, new.run_id, new.role, new.epoch, new.seq)
        for request, _ in publishes
        for new in request.items
        if new.run_id
    }
    return columns(requests, 3), columns(events, 6), columns(items, 4)


def read_item(row: Any) -> StoredItem:
    """Decodes a row of the columns ITEM."""
    role, version, content, metadata, policy, timestamp, ttl, run_id, seq, task_id = row
    item = MemoryItem(
        role, content.decode(), timestamp, version, PropagationPolicy(policy), json.loads(metadata), ttl, task_id
    )
    return StoredItem(item, run_id, seq)


def _item_row(key: Key, stored: StoredItem) -> tuple[Any, ...]:
    item = stored.item
    return (
        *key[:3],
        item.version,
        item.content.encode(),  # bytes, because PostgreSQL refuses U+0000 in text, which a model may produce
        json.dumps(dict(item.metadata), ensure_ascii=False),
        item.policy.value,
        item.timestamp,
        item.ttl,
        None if item.ttl is None else item.timestamp + item.ttl,
        stored.run_id,
        stored.seq,
        item.task_id,
    )


def _results_json(results: Sequence[Published]) -> str:
    return json.dumps([[result.role, result.version, result.repeated_before] for result in results])
