"""Encodes and decodes the registry's records in etcd: proto JSON, readable with etcdctl.

The value of an instance has one more member, HOST: the host that registered it. It stays inside the registry.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from google.protobuf import json_format

from archon.api.common.v1.common_pb2 import Edge
from archon.api.registry.v1.registry_pb2 import Registration
from archon_services.registry.domain.state import State, Value, host_key

GRAPH: Final = "graph"
"""The key that every transaction which writes a registration or a pin compares and bumps."""

HOST: Final = "@host"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Instance:
    """A registration and the host that made it; empty if an earlier version of the registry has stored it."""

    registration: Registration
    host: str = ""


Record = Instance | Edge


def encode(record: Registration | Edge, host: str = "") -> bytes:
    """Encodes a record as canonical proto JSON on one line, an instance with the host that registered it."""
    if not host:
        return json_format.MessageToJson(record, indent=None, sort_keys=True).encode()
    return json.dumps(json_format.MessageToDict(record) | {HOST: host}, sort_keys=True).encode()


@dataclass(frozen=True, slots=True)
class Listing:
    """All records at one revision. `graph_revision` is the revision that last wrote the key `graph`, 0 if the key does
    not exist."""

    state: State
    graph_revision: int


class Records:
    """Decodes the keys below a prefix, and caches records that have not changed since the last listing."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._cache: dict[bytes, tuple[int, Record | None]] = {}

    def listing(self, response: Any) -> Listing:
        """Decodes a RangeResponse over the prefix."""
        self._cache = {kv.key: (kv.mod_revision, self._record(kv)) for kv in response.kvs}
        instances: dict[str, Registration] = {}
        hosts: dict[str, str] = {}
        edges: dict[str, Edge] = {}
        pins: dict[str, Edge] = {}
        graph_revision = 0
        for kv in response.kvs:
            key, (_, record) = self._name(kv.key), self._cache[kv.key]
            if isinstance(record, Instance):
                instances[record.registration.instance_id] = record.registration
                if record.host:
                    hosts[record.registration.instance_id] = record.host
            elif isinstance(record, Edge):
                (pins if record.pinned else edges)[key] = record
            elif key == GRAPH:
                graph_revision = kv.mod_revision
        return Listing(State(response.header.revision, instances, edges, pins, hosts), graph_revision)

    def revisions(self, events: Iterable[Any]) -> Iterator[tuple[int, dict[str, Value | None], bool]]:
        """Groups the events of a watch by revision, so that the changes of one transaction come together. Yields the
        revision, the records that it changed, and whether it wrote the key `graph`."""
        for revision, group in groupby(events, key=lambda event: int(event.kv.mod_revision)):
            update: dict[str, Value | None] = {}
            writes_graph = False
            for event in group:
                key = self._name(event.kv.key)
                writes_graph = writes_graph or key == GRAPH
                if not key.startswith(("instances/", "edges/", "pins/")):
                    continue
                record = self._record(event.kv) if event.type == event.PUT else None
                if isinstance(record, Instance):
                    update[key] = record.registration
                    update[host_key(record.registration.instance_id)] = record.host
                else:
                    update[key] = record
            yield revision, update, writes_graph

    def registration(self, kv: Any) -> Registration | None:
        """Decodes the registration of one key; None if it is not a valid record."""
        record = self._record(kv)
        return record.registration if isinstance(record, Instance) else None

    def _name(self, key: bytes) -> str:
        return key.removeprefix(self._prefix).decode(errors="replace")

    def _record(self, kv: Any) -> Record | None:
        revision, record = self._cache.get(kv.key, (0, None))
        return record if revision == kv.mod_revision else self._decode(self._name(kv.key), kv)

    def _decode(self, key: str, kv: Any) -> Record | None:
        """Decodes a value. Fields that the key determines come from the key, even if the value says otherwise."""
        kind, *names = key.split("/")
        try:
            match kind, names:
                case "instances", [instance_id]:
                    content = json.loads(kv.value)
                    host = str(content.pop(HOST, "")) if isinstance(content, dict) else ""
                    registration = json_format.ParseDict(content, Registration(), ignore_unknown_fields=True)
                    registration.instance_id, registration.revision = instance_id, kv.mod_revision
                    return Instance(registration, host)
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
        except (json_format.ParseError, ValueError, RecursionError, AttributeError, TypeError) as error:
            _log.warning("ignoring the key %s in etcd, which is not a valid record of the registry: %s", key, error)
        return None
