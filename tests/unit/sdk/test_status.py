"""Conversion between errors and the wire in both directions."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon import errors, status
from archon.api.common.v1 import failure_pb2
from archon.failure_kinds import ErrorSeverity, FailureClass, RetryAdvice, kind_of
from archon_mesh.core.memory_graph import CycleError


def every_class(root: type[errors.ArchonError] = errors.ArchonError) -> list[type[errors.ArchonError]]:
    """Returns all classes of the error tree except the root."""
    classes = []
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            classes += [child, *every_class(child)]
    return classes


def same(left: errors.ArchonError, right: errors.ArchonError) -> None:
    """Asserts that two errors have the same class and the same details."""
    assert type(left) is type(right)
    assert (left.message, left.reason, left.metadata) == (right.message, right.reason, right.metadata)
    assert left.field_violations == right.field_violations
    assert left.retry_delay == right.retry_delay


def same_whole(left: errors.ArchonError, right: errors.ArchonError) -> None:
    """Asserts that two errors agree in everything that a Failure carries."""
    same(left, right)
    assert (left.kind, left.failure_class, left.severity) == (right.kind, right.failure_class, right.severity)
    assert left.retry == right.retry
    assert len(left.causes) == len(right.causes)
    for ours, theirs in zip(left.causes, right.causes, strict=True):
        same_whole(ours, theirs)


FULL = {
    "metadata": {"role": "designer"},
    "field_violations": [errors.FieldViolation("goal[0].text", "empty")],
    "retry_delay": 1.5,
}


def test_each_code_but_ok_has_a_class() -> None:
    assert {cls.code for cls in every_class()} == {code.name for code in grpc.StatusCode} - {"OK"}
    assert len(list(grpc.StatusCode)) == 17
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            assert status.error_class(code.name, "").code == code.name
    assert "OK" not in {cls.code for cls in every_class()}


def test_an_error_keeps_its_class_through_a_status() -> None:
    for cls in every_class():
        error = cls("what went wrong", **FULL)  # type: ignore[arg-type]
        same(status.from_status(status.to_status(error)), error)


def test_an_error_keeps_its_class_through_a_failure() -> None:
    for cls in every_class():
        error = cls("what went wrong", **FULL)  # type: ignore[arg-type]
        same_whole(status.from_failure(status.to_failure(error)), error)


def test_kind_severity_retry_and_causes_cross_the_wire() -> None:
    cause = errors.Unavailable("connection refused", kind="model.provider")
    error = errors.Internal(
        "no answer",
        kind="tool.timeout",
        severity=ErrorSeverity.CRITICAL,
        retry=RetryAdvice.ELSEWHERE,
        causes=[cause, errors.NotFound("no such model")],
    )
    received = status.from_failure(status.to_failure(error))
    same_whole(received, error)
    assert (received.failure_class, received.causes[0].kind) == (FailureClass.TOOL, "model.provider")


def test_causes_of_causes_become_flat_and_are_bounded() -> None:
    deep = errors.Internal("first")
    for number in range(40):
        deep = errors.Internal(f"caused {number}", causes=[deep])
    failure = status.to_failure(deep)
    assert [cause.message for cause in failure.causes[:2]] == ["caused 38", "caused 37"]
    assert len(failure.causes) == status.MAX_CAUSES
    assert not any(cause.causes for cause in failure.causes)


def test_enum_values_of_a_newer_version_read_as_unset() -> None:
    failure = failure_pb2.Failure(code=14, message="later", failure_class=90, retry=90, severity=90, kind="new.kind")  # type: ignore[arg-type]
    error = status.from_failure(failure)
    assert (error.kind, error.failure_class, error.retry) == (
        "new.kind",
        FailureClass.INFRASTRUCTURE,
        RetryAdvice.LATER,
    )


def test_an_iteration_limit_keeps_its_partial_answer() -> None:
    error = errors.IterationLimit("no answer", metadata={"partial_answer": "half of it"})
    received = status.from_failure(status.to_failure(error))
    assert isinstance(received, errors.IterationLimit)
    assert received.partial_answer == "half of it"
    assert (received.kind, received.retry) == ("model.reasoning_degradation", RetryAdvice.NEVER)


def test_every_reason_of_the_contract_has_a_kind() -> None:
    names = {reason.removeprefix("ERROR_REASON_") for reason in failure_pb2.ErrorReason.keys()}  # noqa: SIM118
    others = names - {"UNSPECIFIED", "UNKNOWN", "INTERNAL"}
    assert [name for name in others if kind_of("UNKNOWN", name).name == "infrastructure.fault"] == []


def test_the_reason_of_every_class_is_in_the_contract() -> None:
    reasons = set(failure_pb2.ErrorReason.keys())
    assert [cls for cls in every_class() if f"ERROR_REASON_{cls.default_reason}" not in reasons] == []


def test_an_unknown_reason_is_kept_and_gives_the_codes_class() -> None:
    error = errors.NotFound("no such thing", reason="SOMETHING_NEW")
    same(status.from_status(status.to_status(error)), error)
    same(status.from_failure(status.to_failure(error)), error)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20_000),
    st.dictionaries(st.text(min_size=1, max_size=100), st.text(max_size=5_000), max_size=20),
    st.lists(st.tuples(st.text(max_size=500), st.text(max_size=5_000)), max_size=50),
)
def test_details_never_exceed_4_kb(message: str, metadata: dict[str, str], violations: list[tuple[str, str]]) -> None:
    error = errors.InvalidArgument(
        message, metadata=metadata, field_violations=[errors.FieldViolation(*violation) for violation in violations]
    )
    packed = status.to_status(error)
    assert packed.ByteSize() <= status.MAX_DETAILS_BYTES
    assert status.from_status(packed).reason == "INVALID_ARGUMENT"


def test_an_unexpected_exception_is_internal_without_its_text() -> None:
    error = status.as_error(KeyError("the password is hunter2"))
    assert type(error) is errors.Internal
    assert "hunter2" not in str(error)
    assert error.metadata["incident"] in str(error)


def test_a_cycle_is_networkx_unfeasible_and_value_error() -> None:
    import networkx

    error = CycleError(["a", "b", "a"])
    assert isinstance(error, networkx.NetworkXUnfeasible)
    assert isinstance(error, ValueError)
    back = status.from_status(status.to_status(error))
    assert type(back) is errors.GraphCycle
    assert back.metadata["cycle"] == "a -> b -> a"


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.InvalidArgument, ValueError),
        (errors.DeadlineExceeded, TimeoutError),
        (errors.NotFound, LookupError),
        (errors.PermissionDenied, PermissionError),
        (errors.Unavailable, ConnectionError),
        (errors.Unimplemented, NotImplementedError),
    ],
)
def test_errors_derive_from_the_expected_builtins(cls: type[errors.ArchonError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin):
        raise cls("no")


@pytest.mark.parametrize(
    "text",
    [
        "Received message larger than max (5000004 vs. 4194304)",
        "CLIENT: Sent message larger than max (5000004 vs. 4194304)",
        "grpc: received message larger than max (5000004 vs. 4194304)",
        "gRPC message exceeds maximum size 4194304: 5000004",
    ],
)
def test_a_message_that_grpc_itself_refuses_is_too_large_and_not_sent_again(text: str) -> None:
    nothing = grpc.aio.Metadata()
    raised = grpc.aio.AioRpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, nothing, nothing, details=text)
    error = status.from_rpc_error(raised)
    assert (type(error), error.retry) == (errors.MessageTooLarge, RetryAdvice.NEVER)


def test_another_exhausted_resource_of_a_foreign_server_may_be_tried_later() -> None:
    nothing = grpc.aio.Metadata()
    raised = grpc.aio.AioRpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, nothing, nothing, details="too many requests")
    error = status.from_rpc_error(raised)
    assert (type(error), error.retry) == (errors.ResourceExhausted, RetryAdvice.LATER)
