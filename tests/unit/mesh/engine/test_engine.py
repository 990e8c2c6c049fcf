"""The engine by example. A test named durability_N checks line DN of docs/durability.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_mesh.engine import Adopt, Assign, CancelAttempt, Place, RunState, Timer, open_effects
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.event_limit import MAX_EVENTS
from archon_mesh.engine.decide.retries import RECOVERY, Kind
from archon_mesh.engine.effects import CANCEL_GRACE
from archon_mesh.engine.types import Edge, Failure, Submission, TaskState
from tests.unit.mesh.engine.checked_step import checked_step

GONE = Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")
FULL = Failure("RESOURCE_EXHAUSTED", "NO_CAPACITY", "full")
T0 = 1_000.0


class Run:
    """A run that is driven input by input."""

    def __init__(self, roles: str = "abc", edges: tuple[str, ...] = ("ab", "ac", "bc"), timeout: float = 60.0) -> None:
        self.state = RunState()
        self.now = T0
        self.log: list[ev.Event] = []
        graph = tuple(Edge(edge[0], edge[1]) for edge in edges)
        submission = Submission("r", "default", "q", "", "pipeline", tuple(roles), graph, timeout, None)
        self.feed(inp.Submit(submission, "owner", 1))

    def feed(self, new_input: inp.Input) -> list[ev.Event]:
        events = checked_step(self.state, new_input, self.now)
        self.log += events
        return events

    def task(self, role: str) -> str:
        return next(task.task_id for task in self.state.roots() if task.role == role)

    def place(self, role: str, instance: str = "i") -> list[ev.Event]:
        return self.feed(inp.SlotFound(self.task(role), instance))

    def result(self, role: str, attempt: int = 1, state: TaskState = TaskState.COMPLETED) -> list[ev.Event]:
        return self.feed(inp.ResultIn(self.task(role), attempt, state, f"answer of {role}"))

    def lose(self, role: str, attempt: int) -> list[ev.Event]:
        return self.feed(inp.LostIn(self.task(role), attempt, GONE))

    def places(self) -> set[str]:
        return {effect.want.role for effect in open_effects(self.state) if isinstance(effect, Place)}


def test_a_role_starts_once_its_predecessors_are_done() -> None:
    run = Run("abcd", ("ac", "bd"))
    assert run.places() == {"a", "b"}
    run.place("a"), run.place("b")
    run.result("a")
    assert run.places() == {"c"}, "c waits for a only; b is still in progress"


def test_the_answers_of_a_run_are_those_of_its_sinks() -> None:
    run = Run("abc", ("ab", "ac"))
    for role in "abc":
        run.place(role)
        run.result(role)
    assert run.state.state is TaskState.COMPLETED
    assert run.state.answer_seqs == tuple(run.state.tasks[run.task(role)].result_seq for role in "bc")
    assert isinstance(run.log[-1], ev.RunEnded)


def test_a_dispatch_records_its_context_in_dependency_order() -> None:
    run = Run()
    for role in "ab":
        run.place(role)
        run.result(role)
    (dispatched,) = run.place("c")
    assert isinstance(dispatched, ev.Dispatched)
    assert [context.role for context in dispatched.context] == ["a", "b"]
    assert [type(run.log[context.seq - 1]) for context in dispatched.context] == [ev.ResultReceived] * 2


def test_all_ancestors_come_in_dependency_order() -> None:
    all_ancestors: tuple[str, ...]
    for all_ancestors, expected in ((("d",), ["a", "b", "c"]), ((), ["c"])):
        run = Run("abcd", ("ab", "bc", "cd"))
        assert run.state.submission is not None
        run.state.submission = replace(run.state.submission, all_ancestors=all_ancestors)
        for role in "abc":
            run.place(role)
            run.result(role)
        (dispatched,) = run.place("d")
        assert isinstance(dispatched, ev.Dispatched)
        assert [context.role for context in dispatched.context] == expected


def test_durability_1_step_and_restart_open_the_same_effects() -> None:
    run = Run()
    before = open_effects(run.state)
    run.place("a", "i1")
    assert open_effects(run.state) - before == {Assign("r.1", 1, 1, "i1")}
    run.feed(inp.Claim("other", 2))
    assert Adopt("r.1", 1, 2, "i1") in open_effects(run.state), "the new owner adopts what the former owner dispatched"
    assert not any(isinstance(effect, Assign) for effect in open_effects(run.state))


def test_durability_20_every_dispatch_takes_a_new_attempt() -> None:
    run = Run("a", ())
    run.place("a")
    run.feed(inp.RejectIn("r.1", 1, FULL, 0.5))
    assert run.place("a") == [], "the delay has not passed yet"
    run.now += 1.0
    (again,) = run.place("a")
    assert isinstance(again, ev.Dispatched)
    assert again.attempt == 2


def test_durability_20_three_losses_poison_a_task() -> None:
    run = Run("ab", ("ab",))
    for attempt in range(1, RECOVERY[Kind.LOST].tries + 1):
        run.place("a")
        run.lose("a", attempt)
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "POISONED"


def test_durability_10_each_owner_stops_abandoned_attempts() -> None:
    run = Run("ab", ())
    run.place("a")
    run.lose("a", 1)
    run.place("a", instance="j")
    run.place("b", instance="k")
    run.feed(inp.Cancel("me", ""))
    run.feed(inp.Claim("other", 2))
    assert {effect for effect in open_effects(run.state) if isinstance(effect, CancelAttempt)} == {
        CancelAttempt("r.1", 1, 2, "i"),
        CancelAttempt("r.1", 2, 2, "j"),
        CancelAttempt("r.2", 1, 2, "k"),
    }


def test_rejects_are_not_losses_and_are_limited() -> None:
    run = Run("a", ())
    for attempt in range(1, RECOVERY[Kind.REFUSED].tries + 1):
        assert run.state.state is TaskState.WORKING
        run.now += 10.0
        run.place("a")
        run.feed(inp.RejectIn("r.1", attempt, FULL, 0.0))
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "NO_CAPACITY"


def test_a_result_of_a_superseded_attempt_is_discarded() -> None:
    run = Run("a", ())
    run.place("a")
    run.lose("a", 1)
    run.place("a")
    (discarded,) = run.result("a", attempt=1)
    assert isinstance(discarded, ev.Discarded)
    assert run.state.tasks["r.1"].live
    assert isinstance(run.result("a", attempt=2)[-1], ev.RunEnded)


def test_a_result_that_is_sent_again_counts_once() -> None:
    run = Run("ab", ())
    run.place("a")
    assert run.result("a")
    assert run.result("a") == []


def test_a_failed_task_fails_the_run_after_live_attempts() -> None:
    run = Run("abc", ("ac",))
    run.place("a"), run.place("b")
    broken = Failure("INTERNAL", "INTERNAL", "it broke")
    run.feed(inp.ResultIn("r.1", 1, TaskState.FAILED, None, broken))
    assert not run.state.ended
    assert CancelAttempt("r.2", 1, 1, "i") in open_effects(run.state)
    events = run.result("b", state=TaskState.CANCELED)
    assert [type(event) for event in events] == [ev.ResultReceived, ev.TaskEnded, ev.RunEnded]
    assert run.state.state is TaskState.FAILED
    assert run.state.failure == broken


def test_durability_24_a_result_before_the_cancel_wins() -> None:
    run = Run("a", ())
    run.place("a")
    run.result("a")
    assert run.feed(inp.Cancel("me", "")) == []
    assert run.state.state is TaskState.COMPLETED


def test_durability_24_a_result_after_the_cancel_is_discarded() -> None:
    run = Run("a", ())
    run.place("a")
    run.feed(inp.Cancel("me", "enough"))
    events = run.result("a")
    assert [type(event) for event in events] == [ev.Discarded, ev.RunEnded]
    assert run.state.state is TaskState.CANCELED
    assert run.state.failure == Failure("CANCELLED", "CANCELLED", "enough")


def test_a_stopped_attempt_ends_its_task_as_cancelled() -> None:
    for state in (TaskState.CANCELED, TaskState.FAILED, TaskState.REJECTED):
        run = Run("a", ())
        run.place("a")
        run.feed(inp.Cancel("me", "enough"))
        result, ended = run.result("a", state=state)
        assert isinstance(result, ev.ResultReceived)
        assert (result.state, result.failure, result.publish) == (TaskState.CANCELED, None, False)
        assert ended == ev.RunEnded(TaskState.CANCELED, Failure("CANCELLED", "CANCELLED", "enough"), ())
        assert run.state.tasks["r.1"].state is TaskState.CANCELED


def test_a_cancel_with_nothing_under_way_ends_the_run_at_once() -> None:
    run = Run()
    events = run.feed(inp.Cancel("me", ""))
    assert isinstance(events[-1], ev.RunEnded)
    assert {task.state for task in run.state.tasks.values()} == {TaskState.CANCELED}


def test_an_unanswered_cancel_ends_after_the_grace() -> None:
    run = Run("a", ())
    run.place("a")
    run.feed(inp.Cancel("me", ""))
    assert Timer(T0 + CANCEL_GRACE) in open_effects(run.state)
    run.now += CANCEL_GRACE
    assert isinstance(run.feed(inp.Tick())[-1], ev.RunEnded)


def test_durability_23_an_expired_run_fails_with_run_timeout() -> None:
    run = Run("a", (), timeout=5.0)
    assert run.feed(inp.Tick()) == []
    run.now += 5.0
    run.feed(inp.Tick())
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "RUN_TIMEOUT"


@pytest.mark.parametrize(("waited", "reason"), [(5.0, "RUN_TIMEOUT"), (4.0, "DEADLINE_EXCEEDED")])
def test_a_run_out_of_time_is_a_run_timeout_also_if_an_agent_notices_first(waited: float, reason: str) -> None:
    run = Run("ab", (), timeout=5.0)
    run.place("a")
    run.place("b")
    run.now += waited
    late = Failure("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", "the time of the task is over")
    for role in "ab":
        run.feed(inp.ResultIn(run.task(role), 1, TaskState.FAILED, None, late))
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None and run.state.failure.reason == reason
    states = {task.role: task.state for task in run.state.tasks.values()}
    timed_out = reason == "RUN_TIMEOUT"
    assert states == {"a": TaskState.CANCELED if timed_out else TaskState.FAILED, "b": TaskState.CANCELED}


def test_nothing_is_dispatched_once_the_run_is_ending() -> None:
    run = Run("ab", ())
    run.place("a")
    run.feed(inp.Cancel("me", ""))
    assert run.places() == set()
    assert run.place("b") == []


def test_a_role_that_refuses_is_final() -> None:
    run = Run("a", ())
    run.place("a")
    run.feed(inp.ResultIn("r.1", 1, TaskState.REJECTED, None, Failure("FAILED_PRECONDITION", "REJECTED", "no")))
    assert run.state.state is TaskState.FAILED
    assert run.state.tasks["r.1"].state is TaskState.REJECTED


def test_durability_7_a_run_at_its_event_limit_fails_typed() -> None:
    run = Run("a", ())
    run.state.last_seq = MAX_EVENTS
    run.place("a")
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert run.state.failure.reason == "TOO_MANY_EVENTS"


def test_a_run_with_a_full_journal_ends_typed_and_stops_its_attempts() -> None:
    run = Run("a", ())
    run.place("a")
    full = inp.JournalFull(300, 200)
    assert [type(event) for event in run.feed(full)] == [ev.CancelRequested]
    assert run.feed(full) == []
    assert [type(effect) for effect in open_effects(run.state) if not isinstance(effect, Timer)] == [CancelAttempt]
    run.result("a")
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None
    assert (run.state.failure.code, run.state.failure.reason) == ("RESOURCE_EXHAUSTED", "RUN_TOO_LARGE")


def test_records_that_are_stored_ahead_are_applied_so_that_they_are_not_sent_again() -> None:
    run = Run("a", ())
    run.place("a")
    assert run.feed(inp.RecordsIn("r.1", 1, 2, 5)) == [ev.Recorded("r.1", 1, 2, 5)]
    assert run.state.tasks["r.1"].applied == 5
    assert run.feed(inp.RecordsIn("r.1", 2, 2, 9)) == [], "of no attempt under way"
    run.lose("a", 1)
    assert run.feed(inp.RecordsIn("r.1", 1, 2, 7)) == []


def test_a_claim_without_a_higher_epoch_changes_nothing() -> None:
    run = Run()
    assert run.feed(inp.Claim("other", 1)) == []
    assert run.feed(inp.Claim("other", 2)) == [ev.Claimed("other", 2)]


def test_the_version_of_a_published_answer_is_kept_once() -> None:
    run = Run()
    run.place("a")
    run.result("a")
    published = inp.PublishedIn("r.1", 6, 4)
    assert run.feed(published) == [ev.Published("r.1", "a", 6, 4)]
    assert run.feed(published) == []


def test_the_holder_of_an_attempt_is_the_instance_that_it_was_sent_to() -> None:
    run = Run("a", ())
    for attempt, instance in ((1, "i"), (2, "j")):
        run.place("a", instance)
        run.lose("a", attempt)
    run.place("a", "k")
    assert [run.state.holder("r.1", attempt) for attempt in (1, 2, 3, 4)] == ["i", "j", "k", ""]
    assert run.state.holder("r.9", 1) == ""
