"""Between etcd's keys and values and the registry's state: proto JSON, readable with etcdctl."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from google.protobuf import json_format

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Registration
from archon_services.registry.domain.state import State

GRAPH: Final = "graph"
"""The key that every transaction compares and bumps which writes a registration or a pin."""

Record = Registration | Edge

_log = logging.getLogger(__name__)


def encode(record: Record) -> bytes:
    """Canonical proto JSON on one line."""
    return json_format.MessageToJson(record, indent=None, sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class Listing:
    """All keys at one revision; `graph` is the revision that last wrote the key `graph`, 0 where it isn't there."""

    state: State
    leases: dict[str, int]
    graph: int


class Records:
    """Decodes what etcd holds below a prefix. What didn't change since the last time isn't decoded again."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._known: dict[bytes, tuple[int, Record | None]] = {}

    def listing(self, answer: Any) -> Listing:
        """A RangeResponse over the prefix."""
        known = {kv.key: (kv.mod_revision, self._record(kv)) for kv in answer.kvs}
        self._known = known
        instances: dict[str, Registration] = {}
        edges: dict[str, Edge] = {}
        pins: dict[str, Edge] = {}
        leases: dict[str, int] = {}
        graph = 0
        for kv in answer.kvs:
            key, (_, record) = self._name(kv.key), known[kv.key]
            if isinstance(record, Registration):
                instances[record.instance_id] = record
                leases[record.instance_id] = kv.lease
            elif isinstance(record, Edge):
                (pins if record.pinned else edges)[key] = record
            elif key == GRAPH:
                graph = kv.mod_revision
        return Listing(State(answer.header.revision, instances, edges, pins), leases, graph)

    def revisions(self, events: Iterable[Any]) -> Iterator[tuple[int, dict[str, Record | None]]]:
        """Events of a watch, by revision: all that a transaction changed comes together."""
        for revision, group in groupby(events, key=lambda event: int(event.kv.mod_revision)):
            update: dict[str, Record | None] = {}
            for event in group:
                key = self._name(event.kv.key)
                if key.startswith(("instances/", "edges/", "pins/")):
                    update[key] = self._record(event.kv) if event.type == event.PUT else None
            yield revision, update

    def _name(self, key: bytes) -> str:
        return key.removeprefix(self._prefix).decode(errors="replace")

    def _record(self, kv: Any) -> Record | None:
        revision, record = self._known.get(kv.key, (0, None))
        return record if revision == kv.mod_revision else self._decode(self._name(kv.key), kv)

    def _decode(self, key: str, kv: Any) -> Record | None:
        """The key decides what the record is about, whatever a value written past the registry says."""
        kind, *names = key.split("/")
        try:
            match kind, names:
                case "instances", [instance_id]:
                    registration = json_format.Parse(kv.value, Registration(), ignore_unknown_fields=True)
                    registration.instance_id, registration.revision = instance_id, kv.mod_revision
                    return registration
                case "edges", [upstream, downstream, instance_id]:
                    edge = json_format.Parse(kv.value, Edge(), ignore_unknown_fields=True)
                    edge.upstream, edge.downstream, edge.pinned = upstream, downstream, False
                    edge.declared_by[:] = [instance_id]
                    return edge
                case "pins", [upstream, downstream]:
                    edge = json_format.Parse(kv.value, Edge(), ignore_unknown_fields=True)
                    edge.upstream, edge.downstream, edge.pinned = upstream, downstream, True
                    edge.declared_by[:] = []
                    return edge
        except (json_format.ParseError, UnicodeDecodeError) as error:
            _log.warning("the key %s in etcd holds no record of the registry and is left out: %s", key, error)
        return None
