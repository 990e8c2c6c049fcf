"""What holds for the waterfall of any run: random journals of tasks that are dispatched, delegate, ask, fail and end."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archon_services.cli.render.waterfall.document import waterfall_document
from archon_services.cli.render.waterfall.spans import Span, SpanKind, Waterfall
from archon_services.cli.render.waterfall.svg import waterfall_svg
from archon_services.cli.render.waterfall.text import plain, waterfall_lines
from archon_services.cli.render.waterfall.totals import totals
from tests.unit.services.cli.render.waterfall.journals import CANCELED, FAILED, Journal

ROLES = ("a", "b", "c")
STEPS = ("dispatch", "result", "fail", "lose", "retry", "reject", "ask", "answer", "delegate", "call", "pause", "claim")


def write_journal(draw: st.DrawFn) -> tuple[Journal, float]:
    """Returns a journal, and the time of its last event. Each step applies to a task in a state that permits it."""
    pipeline = draw(st.booleans())
    edges = [("a", "b"), ("a", "c"), ("b", "c")] if pipeline else []
    journal = Journal(*ROLES, edges=edges)
    attempts, live, asked, ended, paused = dict.fromkeys(ROLES, 0), set[str](), set[str](), set[str](), False
    parents: dict[str, str] = {}
    now = 0.0
    for _ in range(draw(st.integers(0, 25))):
        now += draw(st.sampled_from([0.0, 0.25, 1.0, 3.0]))
        role = draw(st.sampled_from(sorted(attempts)))
        step = draw(st.sampled_from(STEPS))
        attempt = attempts[role]
        if step == "pause":
            (journal.resumed if paused else journal.paused)(now)
            paused = not paused
        elif step == "claim":
            journal.claimed(now, draw(st.sampled_from(["orchestrator-1", "orchestrator-2"])))
        elif role in ended:
            continue
        elif step == "dispatch" and role not in live | asked:
            attempts[role] += 1
            live.add(role)
            journal.dispatched(now, role, attempts[role])
        elif step == "answer" and role in asked:
            asked.discard(role)
            journal.answered(now, role, attempt)
        elif role in live:
            _attempt_step(journal, step, role, attempt, now, draw)
            if step == "delegate":
                child = f"{role}{len(attempts)}"
                create = child not in attempts
                journal.delegated(now, role, child, attempt, create=create)
                attempts.setdefault(child, 0)
                parents[child] = role
            if step in ("result", "fail", "lose", "retry", "reject", "ask"):
                live.discard(role)
            if step in ("result", "fail"):
                ended.add(role)
            if step == "ask":
                asked.add(role)
    if draw(st.booleans()):
        now += draw(st.sampled_from([0.0, 1.0]))
        journal.ended(now, draw(st.sampled_from([FAILED, CANCELED])))
    return journal, now


def _attempt_step(journal: Journal, step: str, role: str, attempt: int, now: float, draw: st.DrawFn) -> None:
    match step:
        case "result":
            journal.result(now, role, attempt, model_calls=2)
        case "fail":
            journal.result(now, role, attempt, FAILED, "burnt")
        case "lose":
            journal.lost(now, role, attempt)
        case "retry":
            journal.retry(now, role, attempt, now + draw(st.sampled_from([0.0, 2.0])))
        case "reject":
            journal.rejected(now, role, attempt)
        case "ask":
            journal.asked(now, role, attempt)
        case "call":
            start = now + draw(st.sampled_from([-2.0, 0.0, 50.0]))
            kind = draw(st.sampled_from(["model", "tool"]))
            journal.call(role, start, start + draw(st.sampled_from([0.0, 0.5])), kind=kind, attempt=attempt)


@st.composite
def drawn_runs(draw: st.DrawFn) -> Waterfall:
    journal, now = write_journal(draw)
    return journal.waterfall(now + draw(st.sampled_from([0.0, 1.0])))


def assert_within(parent: Span) -> None:
    for child in parent.children:
        assert child.start <= child.end
        if parent.kind is not SpanKind.DELEGATION:
            assert parent.start <= child.start and child.end <= parent.end
        assert_within(child)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_runs())
def test_path_covers_the_run_and_every_form_is_drawn(drawn: Waterfall) -> None:
    root = drawn.root
    assert_within(root)
    ends = [root.start, *(step.end for step in drawn.path)]
    assert [step.start for step in drawn.path] == ends[:-1]
    assert ends[-1] == root.end
    assert all(step.end > step.start for step in drawn.path)
    assert all(step.span.start <= step.start and step.end <= step.span.end for step in drawn.path)
    assert sum(total.share for total in totals(drawn)) == pytest.approx(1.0 if root.seconds else 0.0)
    assert all(len(plain(line)) <= 80 for line in waterfall_lines(drawn, 80))
    ET.fromstring(waterfall_svg(drawn))
    assert len(waterfall_document(drawn)["spans"]) == len(root.children)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_runs())
def test_attempts_and_waits_of_a_task_follow_each_other(drawn: Waterfall) -> None:
    phases: dict[str, list[Span]] = {}
    for _, span in drawn.root.walk():
        if span.kind in (SpanKind.ATTEMPT, SpanKind.WAITING, SpanKind.QUEUE):
            phases.setdefault(span.task_id, []).append(span)
    for spans in phases.values():
        assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
