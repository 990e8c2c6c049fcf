"""What the shared memory takes: every wrong field of a request is named."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.api.memory.v1 import memory_pb2
from archon.errors import FieldViolation, InvalidArgument, MessageTooLarge
from archon.wire import MAX_CHECKED_BYTES
from archon_services.memory.api import convert
from archon_services.memory.domain.publishing import MAX_METADATA
from archon_services.memory.store.port import Publish

ROLE: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
MAX_ID: Final = 256
"""Characters of a scope, a run's id, a request's id."""

MAX_CONTENT: Final = 1024 * 1024
"""Bytes of one item's text, in UTF-8."""

MAX_ITEMS: Final = 100
MAX_KEY: Final = 128
MAX_VALUE: Final = 4096
MAX_TTL: Final = 3650 * 86_400
"""Seconds: about ten years."""


class Check:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self._violations: list[FieldViolation] = []

    def __call__(self, fine: bool, field: str, description: str) -> None:
        if not fine:
            self._violations.append(FieldViolation(field, description))

    def scope(self, name: str) -> None:
        self(0 < len(name) <= MAX_ID, "scope", f"1 to {MAX_ID} characters: a session's id, or a run's")

    def role(self, name: str, field: str) -> None:
        self(bool(ROLE.fullmatch(name)), field, f"a role is {ROLE.pattern}, not {name[:80]!r}")

    def done(self) -> None:
        if self._violations:
            first = self._violations[0]
            raise InvalidArgument(f"{first.field}: {first.description}", field_violations=self._violations)


def publish(request: pb.PublishItemsRequest, tenant: str) -> Publish:
    """What is to be published. Raises MessageTooLarge for an item or a request that is too large, InvalidArgument."""
    _bounded(request.ByteSize(), MAX_CHECKED_BYTES, "items", "a request")
    check = Check()
    check.scope(request.scope)
    check(len(request.request_id) <= MAX_ID, "request_id", f"at most {MAX_ID} characters")
    check(0 < len(request.items) <= MAX_ITEMS, "items", f"1 to {MAX_ITEMS}")
    for at, item in enumerate(request.items[:MAX_ITEMS]):
        _item(item, f"items[{at}]", check)
    check.done()
    return Publish(
        tenant=tenant,
        scope=request.scope,
        items=[convert.new_item(item) for item in request.items],
        request_id=request.request_id,
        payload_hash=hashlib.sha256(request.SerializeToString(deterministic=True)).digest(),
    )


def _item(item: memory_pb2.PublishItem, field: str, check: Check) -> None:
    check.role(item.role, f"{field}.role")
    _bounded(len(item.content.encode()), MAX_CONTENT, f"{field}.content", "an item's text")
    fine = all(0 < len(key) <= MAX_KEY and len(value) <= MAX_VALUE for key, value in item.metadata.items())
    check(
        fine and len(item.metadata) <= MAX_METADATA,
        f"{field}.metadata",
        f"at most {MAX_METADATA} entries, keys of 1 to {MAX_KEY} characters, values of at most {MAX_VALUE}",
    )
    if item.HasField("ttl"):
        ttl = convert.seconds(item.ttl)
        check(0 < ttl <= MAX_TTL, f"{field}.ttl", f"above 0, at most {MAX_TTL:,} s; absent: never")
    check(len(item.run_id) <= MAX_ID, f"{field}.run_id", f"at most {MAX_ID} characters")
    if item.run_id:
        check(item.seq > 0, f"{field}.seq", "the event of the run, from 1")
        check(item.epoch >= 0, f"{field}.epoch", "the epoch of the run's owner, not below 0")
    else:
        check(not item.seq and not item.epoch, f"{field}.run_id", "epoch and seq are of a run: name it")


def _bounded(size: int, limit: int, field: str, what: str) -> None:
    if size > limit:
        raise MessageTooLarge(
            f"{field} has {size:,} bytes; {what} has at most {limit:,}: pass large content by URL",
            metadata={"size": str(size), "limit": str(limit)},
            field_violations=[FieldViolation(field, "too large")],
        )


def scope(name: str) -> str:
    """A scope's name. Raises InvalidArgument."""
    check = Check()
    check.scope(name)
    check.done()
    return name


def pull(request: pb.PullItemsRequest) -> pb.PullItemsRequest:
    """A question for items. Raises InvalidArgument."""
    check = Check()
    check.scope(request.scope)
    check.role(request.role, "role")
    check.done()
    return request
