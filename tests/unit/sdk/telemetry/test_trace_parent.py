"""The traceparent header, by the W3C recommendation."""

from __future__ import annotations

import pytest

from archon.telemetry.trace_parent import TraceParent, is_plain_sampled, is_plain_unsampled

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_a_header_round_trips(flags: str, sampled: bool) -> None:
    parent = TraceParent.parse(f"00-{TRACE}-{SPAN}-{flags}")
    assert parent == TraceParent(TRACE, SPAN, sampled)
    assert str(parent) == f"00-{TRACE}-{SPAN}-0{int(sampled)}"


def test_a_later_version_may_have_more_fields() -> None:
    assert TraceParent.parse(f"01-{TRACE}-{SPAN}-01-more") == TraceParent(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "x",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}g-{SPAN}-01",
    ],
)
def test_an_invalid_header_counts_as_absent(header: str) -> None:
    assert TraceParent.parse(header) is None


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("0a", False), ("0f", True)])
def test_the_cheap_look_agrees_with_the_parser(flags: str, sampled: bool) -> None:
    header = f"00-{TRACE}-{SPAN}-{flags}"
    assert (is_plain_sampled(header), is_plain_unsampled(header)) == (sampled, not sampled)
    for other in ("", f"01-{TRACE}-{SPAN}-{flags}"):
        assert not is_plain_sampled(other) and not is_plain_unsampled(other)
