"""What holds for the waterfall of any run: random journals of tasks that are dispatched, delegate, ask, fail and end."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archon_services.reports.waterfall.document import waterfall_document
from archon_services.reports.waterfall.spans import Span, SpanKind, Waterfall
from archon_services.reports.waterfall.svg import waterfall_svg
from archon_services.reports.waterfall.text import plain, waterfall_lines
from archon_services.reports.waterfall.totals import totals
from tests.unit.services.reports.waterfall.journals import CANCELED, FAILED, Journal

ROLES = ("a", "b", "c")
OF_RUN = ("pause", "claim")
OF_ATTEMPT = ("result", "fail", "lose", "retry", "reject", "ask", "delegate", "delegate", "call", "call")
ENDS = ("result", "fail", "lose", "retry", "reject", "ask")


class RandomRun:
    """Writes a journal step by step, each step to a task in a state that permits it."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        edges = [("a", "b"), ("a", "c"), ("b", "c")] if draw(st.booleans()) else []
        self.journal = Journal(*ROLES, edges=edges)
        self.now = 0.0
        self._attempts = dict.fromkeys(ROLES, 0)
        self._states = dict.fromkeys(ROLES, "ready")
        self._paused = False

    def step(self) -> None:
        self.now += self._draw(st.sampled_from([0.0, 0.25, 1.0, 3.0]))
        possible = [("", step) for step in OF_RUN]
        for role, state in self._states.items():
            steps = {"ready": ("dispatch",) * 4, "asked": ("answer",) * 4, "live": OF_ATTEMPT, "ended": ()}[state]
            possible += [(role, step) for step in steps]
        role, step = self._draw(st.sampled_from(possible))
        if step == "pause":
            (self.journal.resumed if self._paused else self.journal.paused)(self.now)
            self._paused = not self._paused
        elif step == "claim":
            self.journal.claimed(self.now, self._draw(st.sampled_from(["orchestrator-1", "orchestrator-2"])))
        elif step == "dispatch":
            self._attempts[role] += 1
            self._states[role] = "live"
            self.journal.dispatched(self.now, role, self._attempts[role])
        elif step == "answer":
            self._states[role] = "ready"
            self.journal.answered(self.now, role, self._attempts[role])
        else:
            self._attempt_step(role, step, self._attempts[role])

    def end(self) -> None:
        self.now += self._draw(st.sampled_from([0.0, 1.0]))
        self.journal.ended(self.now, self._draw(st.sampled_from([FAILED, CANCELED])))

    def _attempt_step(self, role: str, step: str, attempt: int) -> None:
        if step in ENDS:
            self._states[role] = {"result": "ended", "fail": "ended", "ask": "asked"}.get(step, "ready")
        match step:
            case "result":
                self.journal.result(self.now, role, attempt, model_calls=2)
            case "fail":
                self.journal.result(self.now, role, attempt, FAILED, "burnt")
            case "lose":
                self.journal.lost(self.now, role, attempt)
            case "retry":
                self.journal.retry(self.now, role, attempt, self.now + self._draw(st.sampled_from([0.0, 2.0])))
            case "reject":
                self.journal.rejected(self.now, role, attempt)
            case "ask":
                self.journal.asked(self.now, role, attempt)
            case "delegate":
                self._delegate(role, attempt)
            case _:
                start = self.now + self._draw(st.sampled_from([-2.0, -0.25, 0.0, 50.0]))
                kind = self._draw(st.sampled_from(["model", "tool"]))
                seconds = self._draw(st.sampled_from([0.0, 0.5]))
                self.journal.call(role, start, start + seconds, kind=kind, attempt=attempt)

    def _delegate(self, role: str, attempt: int) -> None:
        """Delegates to a new task, or to one that an earlier attempt of the role had created."""
        own = [child for child in self._attempts if child.startswith(f"{role}.")]
        child = self._draw(st.sampled_from([*own, f"{role}.{len(own)}"]))
        self.journal.delegated(self.now, role, child, attempt, create=child not in self._attempts)
        self._attempts.setdefault(child, 0)
        self._states.setdefault(child, "ready")


@st.composite
def drawn_runs(draw: st.DrawFn) -> Waterfall:
    run = RandomRun(draw)
    for _ in range(draw(st.integers(5, 40))):
        run.step()
    if draw(st.booleans()):
        run.end()
    return run.journal.waterfall(run.now + draw(st.sampled_from([0.0, 1.0])))


def assert_within(parent: Span) -> None:
    for child in parent.children:
        assert child.start <= child.end
        if parent.kind is not SpanKind.DELEGATION:
            assert parent.start <= child.start and child.end <= parent.end
        assert_within(child)


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
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


@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_runs())
def test_attempts_and_waits_of_a_task_follow_each_other(drawn: Waterfall) -> None:
    phases: dict[str, list[Span]] = {}
    for _, span in drawn.root.walk():
        if span.kind in (SpanKind.ATTEMPT, SpanKind.WAITING, SpanKind.QUEUE):
            phases.setdefault(span.task_id, []).append(span)
    for spans in phases.values():
        assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
