"""Several tasks of one role in a run: tasks depend on tasks, and share nothing with others of their role."""

from __future__ import annotations

import pytest

from archon_mesh.engine import Place, RunState, apply, effects_of, is_local, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import Budget, ContextRef, Failure, Item, Submission, TaskState

T0 = 1_000.0
GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")

DRAFT, TITLE, POLISH = "r.1", "r.2", "r.3"


class Writers:
    """`draft` and `title` begin at once, `polish` after `draft`; all three go to the role `writer`."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.state = RunState()
        submission = Submission("r", "default", "q", "", "pipeline", (), (), 60.0, None, budget=budget or Budget())
        self.apply(ev.Submitted(submission, "owner", 1))
        self.apply(ev.TaskCreated(DRAFT, "writer", step_id="draft"))
        self.apply(ev.TaskCreated(TITLE, "writer", step_id="title"))
        self.apply(ev.TaskCreated(POLISH, "writer", predecessors=(DRAFT,), step_id="polish"))

    def apply(self, *events: ev.Event) -> None:
        for event in events:
            apply(self.state, event, T0)

    def feed(self, given: inp.Input) -> list[ev.Event]:
        events = decide(self.state, given, T0)
        self.apply(*events)
        return events

    def place(self, task_id: str) -> ev.Dispatched:
        (event,) = self.feed(inp.SlotFound(task_id, "i"))
        assert isinstance(event, ev.Dispatched)
        return event

    def result(self, task_id: str) -> list[ev.Event]:
        task = self.state.tasks[task_id]
        return self.feed(inp.ResultIn(task_id, task.attempt, TaskState.COMPLETED, f"answer of {task_id}"))

    def publish(self, task_id: str) -> list[ev.Event]:
        return self.feed(inp.PublishIn(task_id, 1, 1, Item(1, f"item of {task_id}")))

    def waiting(self) -> set[str]:
        return {effect.task_id for effect in open_effects(self.state) if isinstance(effect, Place)}


def test_a_task_waits_for_its_predecessor_not_for_its_role() -> None:
    run = Writers()
    assert run.waiting() == {DRAFT, TITLE}
    run.place(TITLE)
    run.result(TITLE)
    assert run.waiting() == {DRAFT}, "title has the role that polish waits for, and is not what it waits for"
    run.place(DRAFT)
    run.result(DRAFT)
    assert run.waiting() == {POLISH}


def test_a_step_receives_the_answer_of_its_predecessor_only() -> None:
    run = Writers()
    run.place(DRAFT)
    run.result(DRAFT)
    run.place(TITLE)
    run.publish(TITLE)
    run.result(TITLE)
    assert run.place(POLISH).context == (ContextRef("writer", run.state.tasks[DRAFT].result_seq),)


def test_what_a_task_publishes_is_its_own() -> None:
    run = Writers()
    run.place(DRAFT), run.place(TITLE)
    run.publish(TITLE)
    assert run.state.tasks[TITLE].items
    assert not run.state.tasks[DRAFT].items
    assert run.state.answer_tasks == {run.state.last_seq: TITLE}


def test_a_lost_attempt_counts_for_its_own_task() -> None:
    run = Writers()
    run.place(DRAFT), run.place(TITLE)
    run.feed(inp.LostIn(TITLE, 1, GONE))
    draft, title = run.state.tasks[DRAFT], run.state.tasks[TITLE]
    assert (draft.losses, draft.live, title.losses, title.live) == (0, True, 1, False)
    assert list(run.state.live_ids) == [DRAFT]
    assert run.waiting() == {TITLE}


def test_each_task_reserves_a_slice_of_its_own() -> None:
    run = Writers(Budget(tokens=80))
    run.place(DRAFT), run.place(TITLE)
    assert [run.state.tasks[name].reserved.tokens for name in (DRAFT, TITLE)] == [10, 10]
    run.result(DRAFT)
    assert [run.state.tasks[name].reserved.tokens for name in (DRAFT, TITLE)] == [0, 10]


def test_the_run_ends_with_the_last_of_them() -> None:
    run = Writers()
    for task_id in (DRAFT, TITLE):
        run.place(task_id)
        assert not any(isinstance(event, ev.RunEnded) for event in run.result(task_id))
    run.place(POLISH)
    run.result(POLISH)
    assert run.state.state is TaskState.COMPLETED
    answers = tuple(run.state.tasks[name].result_seq for name in (TITLE, POLISH))
    assert run.state.answer_seqs == answers, "those of the tasks that no other task waits for"


@pytest.mark.parametrize("count", [10, 1_000])
def test_an_event_costs_the_same_in_a_large_run(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the tasks that are looked at, not the time."""
    looked_at = 0

    class Counted(dict[str, object]):
        def values(self):  # type: ignore[no-untyped-def]
            nonlocal looked_at
            looked_at += len(self)
            return super().values()

    run = Writers()
    for number in range(4, 4 + count):
        run.apply(ev.TaskCreated(f"r.{number}", "writer", predecessors=(DRAFT,), step_id=f"s{number}"))
    run.place(DRAFT)
    run.state.tasks = Counted(run.state.tasks)  # type: ignore[assignment]
    events = decide(run.state, inp.ResultIn(DRAFT, 1, TaskState.COMPLETED, ""), T0)
    assert is_local(run.state, events)
    run.apply(*events)
    assert effects_of(run.state, events) == []
    run.place("r.4")
    assert looked_at == 0, "no decision about one task looks at all of them"
