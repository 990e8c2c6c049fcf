"""What the failed requests of a log have in common is found by counting."""

from __future__ import annotations

from importlib.resources import files

import pytest

from archon_services.demo.incident import CANDIDATES, examine, overview, read_log, report

LOG = files("archon_services.demo").joinpath("checkout.log").read_text(encoding="utf-8")


def log(*requests: tuple[str, str, int]) -> str:
    return "\n".join(
        f"2026-01-01T10:00:00Z host={host} version=1 region=eu pay={pay} amount=2.50 status={status}"
        for host, pay, status in requests
    )


def test_lines_that_are_no_log_are_left_out() -> None:
    [line] = read_log(f'Why?\n\n{log(("a", "card", 500))} error="out of paper"\nnot a line')
    assert (line.minute, line.failed, line.fields["error"]) == ("10:00", True, "out of paper")


@pytest.mark.parametrize("guilty", ["a", "b"])
def test_the_value_that_explains_the_failures_is_found(guilty: str) -> None:
    requests = [(host, pay, 500 if host == guilty else 200) for host in "ab" for pay in ("card", "cash")] * 10
    found = examine(read_log(log(*requests)), ["host"])
    assert (found["values"], found["failed"], found["others_failed"]) == ([guilty], 20, 0)
    assert examine(read_log(log(*requests)), ["pay"])["score"] == 0


def test_a_value_with_few_requests_is_no_cause() -> None:
    requests = [("a", "card", 200)] * 30 + [("b", "card", 500)] * 3
    assert examine(read_log(log(*requests)), ["host"])["values"] == ["a"]


def test_a_log_without_failures_has_no_cause() -> None:
    assert examine(read_log(log(("a", "card", 200))), ["host"]) == {"fields": ["host"], "values": [], "score": 0.0}
    assert overview(read_log(log(("a", "card", 200))))["began"] == ""


def test_the_report_of_the_demo_names_the_pair_that_only_together_fails() -> None:
    lines = read_log(LOG)
    text = report(lines, overview(lines), [examine(lines, fields) for fields in CANDIDATES])
    assert text.startswith("32 of 338 orders failed, worth 1,233.86, from 14:07 on.")
    assert "Cause    version 2.5.0 and pay cardco: 28 of 33 (85%) failed," in text
    assert "Not it   host web-3: without the cause 1 of 95 (1%)" in text
