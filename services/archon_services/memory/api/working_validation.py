"""What working memory takes: every wrong field of a request is named."""

from __future__ import annotations

from archon.api.memory.v1 import working_memory_service_pb2 as pb
from archon.memory import values
from archon_services.memory.api.graph_validation import MAX_ID, Check
from archon_services.memory.domain.working import Write

Request = pb.GetValueRequest | pb.SetValueRequest | pb.DeleteValueRequest


def get_value(request: pb.GetValueRequest) -> None:
    """Raises InvalidArgument."""
    _place(request).done()


def set_value(request: pb.SetValueRequest, tenant: str) -> Write:
    """What is to be written. Raises ResourceExhausted / MESSAGE_TOO_LARGE, InvalidArgument."""
    values.check_size(len(request.value_json.encode()))
    check = _place(request)
    expected = _expected(request, check)
    try:
        values.from_json(request.value_json)
    except ValueError as error:
        check(False, "value_json", f"one JSON value: {error}")
    check.done()
    return Write(tenant, request.scope, request.key, request.value_json, expected)


def delete_value(request: pb.DeleteValueRequest, tenant: str) -> Write:
    """What is to be deleted. Raises InvalidArgument."""
    check = _place(request)
    expected = _expected(request, check)
    check.done()
    return Write(tenant, request.scope, request.key, None, expected)


def list_values(request: pb.ListValuesRequest) -> None:
    """Raises InvalidArgument."""
    check = _scope(request.scope)
    fine = len(request.prefix) <= values.MAX_KEY and "\0" not in request.prefix
    check(fine, "prefix", f"at most {values.MAX_KEY} characters, none of them U+0000")
    check.done()


def _place(request: Request) -> Check:
    check = _scope(request.scope)
    check(values.is_key(request.key), "key", f"1 to {values.MAX_KEY} characters, none of them U+0000")
    return check


def _scope(name: str) -> Check:
    check = Check()
    check(0 < len(name) <= MAX_ID and "\0" not in name, "scope", f"1 to {MAX_ID} characters: a run's id")
    return check


def _expected(request: pb.SetValueRequest | pb.DeleteValueRequest, check: Check) -> int | None:
    if not request.HasField("expected_version"):
        return None
    check(request.expected_version >= 0, "expected_version", "a version, 0: nothing; absent: whatever stands")
    return request.expected_version
