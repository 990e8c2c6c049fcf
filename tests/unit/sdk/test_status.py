"""One table between errors and the wire, both ways."""

from __future__ import annotations

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon import errors, status
from archon.api.common.v1 import failure_pb2
from archon_mesh.core.memory_graph import CycleError


def every_class(root: type[errors.ArchonError] = errors.ArchonError) -> list[type[errors.ArchonError]]:
    """All classes of the error tree itself, the root left out."""
    found = []
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            found += [child, *every_class(child)]
    return found


def same(left: errors.ArchonError, right: errors.ArchonError) -> None:
    """Asserts that nothing was lost."""
    assert type(left) is type(right)
    assert (left.message, left.reason, left.metadata) == (right.message, right.reason, right.metadata)
    assert left.field_violations == right.field_violations
    assert left.retry_delay == right.retry_delay


FULL = {
    "metadata": {"role": "designer"},
    "field_violations": [errors.FieldViolation("goal[0].text", "empty")],
    "retry_delay": 1.5,
}


def test_each_of_the_seventeen_codes_but_ok_has_a_class_and_ok_is_no_error() -> None:
    assert {cls.code for cls in every_class()} == {code.name for code in grpc.StatusCode} - {"OK"}
    assert len(list(grpc.StatusCode)) == 17
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            assert status.error_class(code.name, "").code == code.name
    assert "OK" not in {cls.code for cls in every_class()}


@pytest.mark.parametrize("cls", every_class())
def test_an_error_comes_back_from_a_status_as_the_class_that_was_raised(cls: type[errors.ArchonError]) -> None:
    error = cls("what went wrong", **FULL)  # type: ignore[arg-type]
    same(status.from_status(status.to_status(error)), error)


@pytest.mark.parametrize("cls", every_class())
def test_an_error_comes_back_from_a_failure_as_the_class_that_was_raised(cls: type[errors.ArchonError]) -> None:
    error = cls("what went wrong", **FULL)  # type: ignore[arg-type]
    same(status.from_failure(status.to_failure(error)), error)


@pytest.mark.parametrize("cls", every_class())
def test_every_reason_that_a_class_stands_for_is_in_the_contracts_enum(cls: type[errors.ArchonError]) -> None:
    assert "ERROR_REASON_" + cls.default_reason in failure_pb2.ErrorReason.keys()  # noqa: SIM118


def test_an_unknown_reason_gives_the_class_of_its_code_and_keeps_the_reason() -> None:
    error = errors.NotFound("no such thing", reason="SOMETHING_NEW")
    same(status.from_status(status.to_status(error)), error)
    same(status.from_failure(status.to_failure(error)), error)


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20_000),
    st.dictionaries(st.text(min_size=1, max_size=100), st.text(max_size=5_000), max_size=20),
    st.lists(st.tuples(st.text(max_size=500), st.text(max_size=5_000)), max_size=50),
)
def test_details_never_pass_4_kb_whatever_an_error_carries(
    message: str, metadata: dict[str, str], violations: list[tuple[str, str]]
) -> None:
    error = errors.InvalidArgument(
        message, metadata=metadata, field_violations=[errors.FieldViolation(*one) for one in violations]
    )
    packed = status.to_status(error)
    assert packed.ByteSize() <= status.MAX_DETAILS_BYTES
    assert status.from_status(packed).reason == "INVALID_ARGUMENT"


def test_what_archon_did_not_raise_on_purpose_is_internal_and_its_text_stays_at_home() -> None:
    error = status.as_error(KeyError("the password is hunter2"))
    assert type(error) is errors.Internal
    assert "hunter2" not in str(error)
    assert error.metadata["incident"] in str(error)


def test_a_cycle_is_a_class_under_networkx_unfeasible_and_value_error_and_comes_back_as_graph_cycle() -> None:
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
def test_errors_are_caught_by_the_builtin_that_a_python_author_expects(
    cls: type[errors.ArchonError], builtin: type[Exception]
) -> None:
    with pytest.raises(builtin):
        raise cls("no")
