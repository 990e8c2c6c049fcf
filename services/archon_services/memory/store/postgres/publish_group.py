"""A group of publishes: what they need is read at once, what they change is gathered, and written at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from archon_mesh.core.memory_item import MemoryItem, PropagationPolicy
from archon_services.memory.store.port import NewItem, Publish, Published, StoredItem

Key = tuple[Any, ...]


@dataclass(slots=True)
class Rows:
    """See publishing.Rows: one publish's view of its group. What it put counts once it is kept."""

    group: Group
    tenant: str
    scope: str
    _requests: dict[Key, tuple[bytes, list[Published], float]] = field(default_factory=dict)
    _events: dict[Key, tuple[int, float]] = field(default_factory=dict)
    _earlier: dict[Key, float] = field(default_factory=dict)
    _last: dict[Key, tuple[int, int]] = field(default_factory=dict)
    _items: dict[Key, StoredItem] = field(default_factory=dict)

    def request(self, request_id: str) -> tuple[bytes, list[Published]] | None:
        """See publishing.Rows."""
        known = self.group.requests.get((self.tenant, request_id))
        return known[:2] if known is not None else None

    def version_of(self, new: NewItem) -> int | None:
        """See publishing.Rows."""
        key = (self.tenant, self.scope, new.run_id, new.role, new.epoch, new.seq)
        known = self._events.get(key) or self.group.events.get(key)
        return known[0] if known is not None else None

    def last_event(self, run_id: str, role: str) -> tuple[int, int] | None:
        """See publishing.Rows."""
        key = (self.tenant, self.scope, run_id, role)
        return self._last.get(key) or self.group.last.get(key)

    def item(self, role: str) -> tuple[int, StoredItem | None] | None:
        """See publishing.Rows."""
        key = (self.tenant, self.scope, role)
        if (put := self._items.get(key)) is not None:
            return put.item.version, put
        return self.group.items.get(key)

    def put_item(self, stored: StoredItem) -> None:
        """See publishing.Rows."""
        key = (self.tenant, self.scope, stored.item.source_id)
        self._items.pop(key, None)  # it is the last that was published
        self._items[key] = stored

    def put_event(self, new: NewItem, version: int, expires_at: float, earlier_expire_at: float) -> None:
        """See publishing.Rows."""
        key = (self.tenant, self.scope, new.run_id, new.role)
        for event, (known, at) in self._events.items():
            if event[:4] == key:
                self._events[event] = (known, min(at, earlier_expire_at))
        self._earlier[key] = min(self._earlier.get(key, earlier_expire_at), earlier_expire_at)
        self._events[*key, new.epoch, new.seq] = (version, expires_at)
        self._last[key] = (new.epoch, new.seq)

    def put_request(self, request_id: str, payload_hash: bytes, answers: list[Published], expires_at: float) -> None:
        """See publishing.Rows."""
        self._requests[self.tenant, request_id] = (payload_hash, answers, expires_at)

    def keep(self) -> None:
        """What was put is the group's from now on."""
        group = self.group
        for key, earlier in self._earlier.items():
            for event, (known, at) in group.events.items():
                if event[:4] == key:
                    group.events[event] = (known, min(at, earlier))
            group.earlier[key] = min(group.earlier.get(key, earlier), earlier)
        group.requests.update(self._requests)
        group.events.update(self._events)
        group.last.update(self._last)
        group.new_requests |= self._requests.keys()
        group.new_events |= self._events.keys()
        for key, stored in self._items.items():
            group.items[key] = (stored.item.version, stored)
            group.new_items.pop(key, None)
            group.new_items[key] = stored


class Group:
    """What stands so far, and what is to be written."""

    def __init__(self) -> None:
        self.requests: dict[Key, tuple[bytes, list[Published], float]] = {}
        self.events: dict[Key, tuple[int, float]] = {}
        self.earlier: dict[Key, float] = {}
        self.last: dict[Key, tuple[int, int]] = {}
        self.items: dict[Key, tuple[int, StoredItem | None]] = {}
        self.new_requests: set[Key] = set()
        self.new_events: set[Key] = set()
        self.new_items: dict[Key, StoredItem] = {}

    @property
    def changes(self) -> bool:
        """Whether anything is to be written."""
        return bool(self.new_requests or self.new_events or self.new_items)

    def take_requests(self, rows: Iterable[Any]) -> None:
        """What REQUESTS found."""
        for tenant, request_id, payload_hash, answer in rows:
            answers = [Published(*one) for one in json.loads(answer)]
            self.requests[tenant, request_id] = (payload_hash, answers, 0.0)

    def take_events(self, rows: Iterable[Any]) -> None:
        """What EVENTS found."""
        for row in rows:
            if row[6] is not None:
                self.events[tuple(row[:6])] = (row[6], float("inf"))
            self.last[tuple(row[:4])] = (row[7], row[8])

    def take_items(self, rows: Iterable[Any], now: float) -> None:
        """What ITEMS found. One whose time is over stands no more."""
        for row in rows:
            stands = row[5] is not None and (row[2] is None or row[2] > now)
            self.items[row[0], row[1], row[3]] = (row[4], read_item(row[3:]) if stands else None)

    def columns(self) -> list[list[Any]]:
        """The arguments of WRITE, but the first."""
        requests = [
            (*key, self.requests[key][0], _answer(self.requests[key][1]), self.requests[key][2])
            for key in self.new_requests
        ]
        return [
            *_columns([(*key, at) for key, at in self.earlier.items()], 5),
            *_columns([(*key, *self.events[key]) for key in self.new_events], 8),
            *_columns(requests, 5),
            *_columns([_item_row(key, stored) for key, stored in self.new_items.items()], 12),
        ]


def asked(publishes: Sequence[tuple[Publish, float]]) -> tuple[list[Any], list[Any], list[Any]]:
    """The arguments of REQUESTS, EVENTS and ITEMS."""
    requests = {(one.tenant, one.request_id, now) for one, now in publishes if one.request_id}
    items = {(one.tenant, one.scope, new.role) for one, _ in publishes for new in one.items}
    events = {
        (one.tenant, one.scope, new.run_id, new.role, new.epoch, new.seq)
        for one, _ in publishes
        for new in one.items
        if new.run_id
    }
    return _columns(requests, 3), _columns(events, 6), _columns(items, 3)


def read_item(row: Any) -> StoredItem:
    """A row of the columns ITEM."""
    role, version, content, metadata, policy, timestamp, ttl, run_id, seq = row
    item = MemoryItem(role, content.decode(), timestamp, version, PropagationPolicy(policy), json.loads(metadata), ttl)
    return StoredItem(item, run_id, seq)


def _item_row(key: Key, stored: StoredItem) -> tuple[Any, ...]:
    item = stored.item
    return (
        *key,
        item.version,
        item.content.encode(),  # as text PostgreSQL would refuse U+0000, which a model may well answer
        json.dumps(dict(item.metadata), ensure_ascii=False),
        item.policy.value,
        item.timestamp,
        item.ttl,
        None if item.ttl is None else item.timestamp + item.ttl,
        stored.run_id,
        stored.seq,
    )


def _answer(answers: Sequence[Published]) -> str:
    return json.dumps([[one.role, one.version, one.repeated_before] for one in answers])


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    found = list(rows)
    return [list(column) for column in zip(*found, strict=True)] if found else [[] for _ in range(width)]
