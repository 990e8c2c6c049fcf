"""The leases, the kept results and the figures of an owner of shared tools, with a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.tool.v1 import tool_pb2
from archon.errors import (
    ArchonError,
    InvalidArgument,
    LeaseExpired,
    NotFound,
    RequestIdReused,
    ResourceExhausted,
    Unavailable,
    UnknownFailure,
)
from archon.registry import Tool, ToolShare
from archon.tools import SharedToolResult
from archon.tools.caller.peer import encode_arguments, was_not_begun
from archon.tools.owner.execution import Execution
from archon.tools.owner.figures import ToolFigures, differs_notably
from archon.tools.owner.kept_results import KEPT_SECONDS, MAX_KEPT, MAX_KEPT_BYTES, KeptResults
from archon.tools.owner.leases import IDLE_SECONDS, MAX_LEASES, LeaseTable
from archon.tools.shared_tool import MAX_ARGUMENTS_BYTES, ArgumentCheck
from tests.fixtures.virtual_time import VirtualTime


def test_a_lease_ends_at_its_time() -> None:
    time = VirtualTime()
    leases = LeaseTable(time.clock)
    lease = leases.grant("t", 600.0, 60, None, "")
    time.now += 599
    assert leases.find(lease.lease_id) is lease
    time.now += 1
    with pytest.raises(LeaseExpired):
        leases.find(lease.lease_id)
    assert not len(leases)


def test_leases_are_bounded_and_idle_ones_make_room() -> None:
    time = VirtualTime()
    leases = LeaseTable(time.clock)
    granted = [leases.grant("t", 3600.0, 60, None, "") for _ in range(MAX_LEASES)]
    with pytest.raises(ResourceExhausted) as caught:
        leases.grant("t", 3600.0, 60, None, "")
    assert 0 < (caught.value.retry_delay or 0) <= IDLE_SECONDS
    time.now += IDLE_SECONDS
    leases.find(granted[0].lease_id)  # is in use
    leases.grant("t", 3600.0, 60, None, "")
    assert len(leases) == MAX_LEASES
    leases.find(granted[0].lease_id)
    with pytest.raises(LeaseExpired):
        leases.find(granted[1].lease_id)


def test_a_lease_with_a_call_in_progress_makes_no_room() -> None:
    time = VirtualTime()
    leases = LeaseTable(time.clock)
    for _ in range(MAX_LEASES):
        leases.grant("t", 3600.0, 60, None, "").calls = 1
    time.now += 10 * IDLE_SECONDS
    with pytest.raises(ResourceExhausted):
        leases.grant("t", 3600.0, 60, None, "")


def kept(results: KeptResults, name: str, size: int = 10) -> None:
    results.begin((name,), b"d", Execution(name, 1.0, ended=lambda _: None, left=lambda _: None))
    results.keep((name,), tool_pb2.ToolResult(content_json="x" * size))


def test_kept_results_are_bounded_in_count_bytes_and_time() -> None:
    time = VirtualTime()
    results = KeptResults(time.clock)
    for number in range(MAX_KEPT + 5):
        kept(results, f"k{number}")
    assert len(results) == MAX_KEPT
    assert results.find(("k4",), b"d") is None and results.find(("k5",), b"d") is not None
    with pytest.raises(RequestIdReused):
        results.find(("k5",), b"other")
    time.now += KEPT_SECONDS
    assert results.find(("k5",), b"other") is None
    large = KeptResults(time.clock)
    for number in range(6):
        kept(large, f"k{number}", MAX_KEPT_BYTES // 4)
    assert len(large) == 3


def test_figures_are_advertised_anew_only_if_they_differ() -> None:
    figures = ToolFigures()
    none = figures.share(60)
    assert none == ToolShare(60) and not differs_notably(none, none)
    figures.count(0.1, ok=True)
    first = figures.share(60)
    assert differs_notably(none, first) and first == ToolShare(60, 1, 1.0, 0.1)
    for _ in range(2):
        figures.count(0.1, ok=True)
    assert not differs_notably(first, figures.share(60))
    figures.count(0.1, ok=False)
    assert differs_notably(first, figures.share(60))
    many = ToolShare(60, 1_000, 1.0, 0.1)
    assert not differs_notably(many, ToolShare(60, 1_100, 0.99, 0.11))
    assert differs_notably(many, ToolShare(60, 1_100, 0.99, 0.2))
    assert differs_notably(many, None) and differs_notably(many, ToolShare(30, 1_000, 1.0, 0.1))


def test_arguments_are_bounded_and_checked() -> None:
    check = ArgumentCheck(Tool("t"))
    assert check.read("") == {} and check.read('{"a": 1}') == {"a": 1}
    for text in ('"' + "x" * MAX_ARGUMENTS_BYTES + '"', '{"a": "' + "é" * (MAX_ARGUMENTS_BYTES // 2) + '"}', "null"):
        with pytest.raises(InvalidArgument) as caught:
            check.read(text)
        assert caught.value.field_violations
    with pytest.raises(InvalidArgument):
        encode_arguments({"a": object()})
    with pytest.raises(InvalidArgument):
        encode_arguments({"a": "x" * MAX_ARGUMENTS_BYTES})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (LeaseExpired(""), True),
        (LeaseExpired("", metadata={"begun": "true"}), False),
        (NotFound(""), True),
        (ResourceExhausted(""), True),
        (Unavailable("failed to connect to all addresses; last error: UNKNOWN"), True),
        (Unavailable("", metadata={"begun": "false"}), True),
        (Unavailable("Socket closed"), False),
        (Unavailable("", metadata={"begun": "true"}), False),
        (UnknownFailure(""), False),
    ],
)
def test_contract_rule_14_says_which_calls_were_not_begun(error: ArchonError, expected: bool) -> None:
    assert was_not_begun(error) is expected


@pytest.mark.parametrize(
    "message",
    [
        tool_pb2.ToolResult(),
        tool_pb2.ToolResult(status=99),  # type: ignore[arg-type]
        tool_pb2.ToolResult(status=tool_pb2.TOOL_STATUS_SUCCESS, content_json="{"),
    ],
)
def test_a_message_that_is_no_result_is_refused(message: Any) -> None:
    with pytest.raises(UnknownFailure):
        SharedToolResult.from_proto(message)


def test_a_result_is_the_same_after_the_wire() -> None:
    for content in (None, 0, "ü", [1, {"a": None}], True):
        result = SharedToolResult(content, seconds=1.5, metadata={"a": "b"})
        assert SharedToolResult.from_proto(result.proto) == result
    assert SharedToolResult("\ud800").proto.content_json == '"?"'
