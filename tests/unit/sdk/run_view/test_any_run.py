"""What holds for the view of any run: random courses of the engine, as a watch brings them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.run_view import RunView, TaskState
from archon.types import RunEvent
from archon.wire import timestamp
from archon_mesh.engine import inputs as inp
from tests.fixtures.run_events import event_to_proto
from tests.unit.mesh.engine.checked_step import checked_step
from tests.unit.mesh.engine.courses import Course

COURSES = st.integers(0, 10_000)


class Watched(Course):
    """A random course, whose events a view folds, with some text of each attempt between them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[run_pb2.RunEvent] = []
        self.view = RunView()

    @override
    def _feed(self, given: inp.Input) -> Iterator[str]:
        for event in checked_step(self.state, given, self.now):
            seq = sum(bool(each.seq) for each in self.events) + 1
            self.add(event_to_proto(event, run_id="r", seq=seq, time=timestamp(self.now), epoch=1))
        for task in self.state.live_tasks():
            ref = common_pb2.TaskRef(task_id=task.task_id, attempt=task.attempt)
            self.add(run_pb2.RunEvent(run_id="r", task=ref, text_delta=run_pb2.TextDelta(text=f"{len(self.events)} ")))
        yield ""

    def add(self, event: run_pb2.RunEvent) -> None:
        self.events.append(event)
        self.view.apply(RunEvent(event))


def watched(seed: int) -> Watched:
    course = Watched(seed)
    for _ in course.lines():
        pass
    return course


@given(COURSES, st.data())
def test_a_watch_that_resumes_with_an_overlap_gives_the_same_view(seed: int, data: st.DataObject) -> None:
    course = watched(seed)
    view, position = RunView(), 0
    while position < len(course.events):
        until = data.draw(st.integers(position + 1, len(course.events)))
        for event in course.events[position:until]:
            view.apply(RunEvent(event))
        for event in course.events[data.draw(st.integers(0, until)) : until]:
            if event.seq:  # a watch that resumes brings no transient event again
                view.apply(RunEvent(event))
        position = until
    assert view == course.view


@given(COURSES)
def test_usage_and_the_open_questions_are_those_of_the_tasks(seed: int) -> None:
    view = watched(seed).view
    tasks = view.tasks.values()
    assert view.usage.input_tokens == sum(task.usage.input_tokens for task in tasks)
    assert {question.input_id for question in view.questions} == {
        task.question.input_id for task in tasks if task.question is not None
    }
    for task in tasks:
        assert all(attempt.ended for attempt in task.attempts[:-1])
        assert not task.final or (task.ended and all(attempt.ended for attempt in task.attempts))
        assert [attempt.number for attempt in task.attempts] == list(range(1, len(task.attempts) + 1))


@pytest.mark.parametrize("seed", range(60))
def test_a_view_agrees_with_the_engine_after_each_step(seed: int) -> None:
    """What GetRun says of a run that goes on, its view says too."""
    for _ in (course := Watched(seed)).lines():
        run, view = course.state, course.view
        if run.ended:
            break
        for task_id, task in run.tasks.items():
            # The question of a task that is being stopped is withdrawn, whatever its state still says.
            assert view.tasks[task_id].state == ("working" if task.stopping else TaskState.from_proto(task.state))
        assert {task_id: task.attempt for task_id, task in run.tasks.items()} == {
            task_id: task.attempt.number if task.attempt is not None else 0 for task_id, task in view.tasks.items()
        }
        assert {task.question for task in run.tasks.values() if task.question} == {
            question.input_id for question in view.questions
        }
        assert (view.paused, view.started, view.last_seq) == (run.paused, run.create_time, run.last_seq)
        stopped = run.clock_stopped_for + (course.now - run.clock_stopped_since if run.clock_stopped_since else 0.0)
        assert view.stopped_for(course.now) == pytest.approx(stopped)


@pytest.mark.search
@pytest.mark.large
def test_the_fold_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        events = []
        for number in range(size):
            event = run_pb2.RunEvent(run_id="r", seq=number + 1)
            event.task.task_id, event.task.attempt = f"t{number // 10}", number % 10 + 1
            event.time.seconds = number + 1
            event.dispatched.instance_id = "i"
            events.append(event)
        started, view = time.process_time(), RunView()
        for event in events:
            view.apply(RunEvent(event))
        return time.process_time() - started

    # 16 times as many events, which would take 256 times as long in quadratic time.
    assert min(seconds(64_000) for _ in range(3)) < 100 * min(seconds(4_000) for _ in range(3))
