"""Validation of memory graph requests: names every invalid field."""

from __future__ import annotations

import hashlib
from typing import Final

from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.api.memory.v1 import memory_pb2
from archon.errors import FieldViolation, MessageTooLarge
from archon.memory.long_term.entry import DEFAULT_LIMIT, check_limit, check_query, check_threshold
from archon.memory.values import MAX_PUBLISH_BYTES
from archon.wire import MAX_CHECKED_BYTES
from archon_services.common.validation import Violations
from archon_services.memory.api import convert
from archon_services.memory.domain.items import Publish
from archon_services.memory.domain.publishing import MAX_METADATA

MAX_ID: Final = 256
"""Characters of a scope, a run id or a request id."""

MAX_CONTENT: Final = MAX_CHECKED_BYTES
"""Bytes of an item's text in UTF-8: as many as a task's result may have."""

MAX_ITEMS: Final = 100
MAX_KEY: Final = 128
MAX_VALUE: Final = 4096
MAX_TTL: Final = 3650 * 86_400
"""Seconds: about ten years."""


def publish(request: pb.PublishItemsRequest, tenant: str) -> Publish:
    """Converts a publish. Raises MessageTooLarge if an item or the request is too large, and InvalidArgument."""
    _check_size(request.ByteSize(), MAX_PUBLISH_BYTES, "items", "a request")
    violations = Violations()
    _check_scope(request.scope, violations)
    violations.check(len(request.request_id) <= MAX_ID, "request_id", f"must be at most {MAX_ID} characters")
    violations.check(0 < len(request.items) <= MAX_ITEMS, "items", f"must be 1 to {MAX_ITEMS}")
    for index, item in enumerate(request.items[:MAX_ITEMS]):
        _check_item(item, f"items[{index}]", violations)
    violations.raise_if_any()
    return Publish(
        tenant=tenant,
        scope=request.scope,
        items=[convert.new_item(item) for item in request.items],
        request_id=request.request_id,
        payload_hash=hashlib.sha256(request.SerializeToString(deterministic=True)).digest(),
    )


def _check_item(item: memory_pb2.PublishItem, field: str, violations: Violations) -> None:
    violations.check_role(item.role, f"{field}.role")
    _check_size(len(item.content.encode()), MAX_CONTENT, f"{field}.content", "an item's text")
    valid = all(0 < len(key) <= MAX_KEY and len(value) <= MAX_VALUE for key, value in item.metadata.items())
    violations.check(
        valid and len(item.metadata) <= MAX_METADATA,
        f"{field}.metadata",
        f"must be at most {MAX_METADATA} entries, keys of 1 to {MAX_KEY} characters, values of at most {MAX_VALUE}",
    )
    if item.HasField("ttl"):
        ttl = convert.seconds(item.ttl)
        violations.check(
            0 < ttl <= MAX_TTL, f"{field}.ttl", f"must be above 0 and at most {MAX_TTL:,} s; absent for no expiry"
        )
    violations.check(len(item.run_id) <= MAX_ID, f"{field}.run_id", f"must be at most {MAX_ID} characters")
    if item.run_id:
        violations.check(item.seq > 0, f"{field}.seq", "must be the sequence number of an event of the run, from 1")
        violations.check(item.epoch >= 0, f"{field}.epoch", "must be the epoch of the run's owner, at least 0")
        violations.check(len(item.task_id) <= MAX_ID, f"{field}.task_id", f"must be at most {MAX_ID} characters")
    else:
        unset = not item.seq and not item.epoch and not item.task_id
        violations.check(unset, f"{field}.run_id", "must be set if epoch, seq or task_id is set")


def _check_size(size: int, limit: int, field: str, what: str) -> None:
    if size > limit:
        raise MessageTooLarge(
            f"{field} has {size:,} bytes; {what} has at most {limit:,}: pass large content by URL",
            metadata={"size": str(size), "limit": str(limit)},
            field_violations=[FieldViolation(field, "too large")],
        )


def _check_scope(scope: str, violations: Violations) -> None:
    description = f"must be a session id or run id of 1 to {MAX_ID} characters"
    violations.check(0 < len(scope) <= MAX_ID, "scope", description)


def scope(name: str) -> str:
    """Returns a scope's name. Raises InvalidArgument."""
    violations = Violations()
    _check_scope(name, violations)
    violations.raise_if_any()
    return name


def pull(request: pb.PullItemsRequest) -> None:
    """Checks the scope and the role of a pull. Raises InvalidArgument."""
    violations = Violations()
    _check_scope(request.scope, violations)
    violations.check_role(request.role, "role")
    violations.raise_if_any()


def search(request: pb.SearchItemsRequest) -> None:
    """Checks a search. Raises InvalidArgument."""
    check_query(request.query)
    check_limit(request.limit or DEFAULT_LIMIT)
    check_threshold(request.threshold)
    violations = Violations()
    _check_scope(request.scope, violations)
    if request.role:
        violations.check_role(request.role, "role")
    violations.raise_if_any()
