"""Validation of working memory requests: names every invalid field."""

from __future__ import annotations

from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.memory import values
from archon_services.common.validation import Violations
from archon_services.memory.api.graph_validation import MAX_ID
from archon_services.memory.domain.working import Write

Request = pb.GetValueRequest | pb.SetValueRequest | pb.DeleteValueRequest


def get_value(request: pb.GetValueRequest) -> None:
    """Raises InvalidArgument."""
    _check_key(request).raise_if_any()


def set_value(request: pb.SetValueRequest, tenant: str) -> Write:
    """Converts a write. Raises ResourceExhausted (MESSAGE_TOO_LARGE), InvalidArgument."""
    values.check_size(len(request.value_json.encode()))
    violations = _check_key(request)
    expected = _expected_version(request, violations)
    try:
        values.from_json(request.value_json)
    except ValueError as error:
        violations.check(False, "value_json", f"must be one JSON value: {error}")
    violations.raise_if_any()
    return Write(tenant, request.scope, request.key, request.value_json, expected)


def delete_value(request: pb.DeleteValueRequest, tenant: str) -> Write:
    """Converts a delete. Raises InvalidArgument."""
    violations = _check_key(request)
    expected = _expected_version(request, violations)
    violations.raise_if_any()
    return Write(tenant, request.scope, request.key, None, expected)


def list_values(request: pb.ListValuesRequest) -> None:
    """Raises InvalidArgument."""
    _check_prefix(request)


def watch_values(request: pb.WatchValuesRequest) -> None:
    """Raises InvalidArgument."""
    _check_prefix(request)


def _check_prefix(request: pb.ListValuesRequest | pb.WatchValuesRequest) -> None:
    violations = _check_scope(request.scope)
    valid = len(request.prefix) <= values.MAX_KEY and "\0" not in request.prefix
    violations.check(valid, "prefix", f"must be at most {values.MAX_KEY} characters without U+0000")
    violations.raise_if_any()


def _check_key(request: Request) -> Violations:
    violations = _check_scope(request.scope)
    description = f"must be 1 to {values.MAX_KEY} characters without U+0000"
    violations.check(values.is_key(request.key), "key", description)
    return violations


def _check_scope(scope: str) -> Violations:
    violations = Violations()
    valid = 0 < len(scope) <= MAX_ID and "\0" not in scope
    violations.check(valid, "scope", f"must be a run id of 1 to {MAX_ID} characters")
    return violations


def _expected_version(request: pb.SetValueRequest | pb.DeleteValueRequest, violations: Violations) -> int | None:
    if not request.HasField("expected_version"):
        return None
    description = "must be a version, or 0 for no value; absent for any"
    violations.check(request.expected_version >= 0, "expected_version", description)
    return request.expected_version
