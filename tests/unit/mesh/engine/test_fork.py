"""Forks: a new run reuses what has finished in another one, as facts of its own journal."""

from __future__ import annotations

from archon_mesh.engine import Assign, RunState, effects_of, is_local, open_effects, places
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import Edge, Failure, Submission, TaskState
from tests.unit.mesh.engine.checked_step import checked_step

T0 = 1_000.0
BROKEN = Failure("INVALID_ARGUMENT", "INVALID_ARGUMENT", "cannot")
DIAMOND = ("ab", "ac", "bc")


def submission(run_id: str, roles: str = "abc", edges: tuple[str, ...] = DIAMOND) -> Submission:
    graph = tuple(Edge(edge[0], edge[1]) for edge in edges)
    return Submission(run_id, "default", "", "", "pipeline", tuple(roles), graph, 60.0, None, parent_run_id="old")


def feed(run: RunState, given: inp.Input) -> list[ev.Event]:
    return checked_step(run, given, T0)


def source(*completed: str, failed: str = "") -> RunState:
    run = RunState()
    feed(run, inp.Submit(submission("old"), "owner", 1))
    for role in (*completed, *failed):
        task_id = next(task.task_id for task in run.roots() if task.role == role)
        feed(run, inp.SlotFound(task_id, "i"))
        if role == failed:
            feed(run, inp.ResultIn(task_id, 1, TaskState.FAILED, None, BROKEN))
        else:
            feed(run, inp.ResultIn(task_id, 1, TaskState.COMPLETED, f"answer of {role}"))
    return run


def forked(*roles: str, edges: tuple[str, ...] = DIAMOND) -> tuple[RunState, list[ev.Event]]:
    run = RunState()
    reused = tuple(inp.ReusedAnswer(role, f"answer of {role}", role != "b") for role in roles)
    return run, feed(run, inp.Submit(submission("new", edges=edges), "owner", 1, reused))


def test_a_fork_dispatches_only_the_tasks_that_are_left() -> None:
    run, events = forked("a")
    assert [type(event).__name__ for event in events] == ["Submitted", *["TaskCreated"] * 3, "ResultReceived"]
    assert [place.want.role for place in places(run)] == ["b"]
    reused = run.tasks["new.1"]
    assert (reused.state, reused.attempt, reused.result_seq, reused.payload) == (
        TaskState.COMPLETED,
        0,
        5,
        "answer of a",
    )


def test_reused_answers_are_the_context_of_dependants() -> None:
    run, _ = forked("a", "b")
    (dispatched,) = feed(run, inp.SlotFound("new.3", "i"))
    assert isinstance(dispatched, ev.Dispatched)
    assert [(ref.role, ref.seq) for ref in dispatched.context] == [("a", 5), ("b", 6)]


def test_a_fork_keeps_which_answers_are_not_published() -> None:
    _, events = forked("a", "b")
    assert [event.publish for event in events if isinstance(event, ev.ResultReceived)] == [True, False]


def test_a_fork_that_reuses_everything_has_completed() -> None:
    run, events = forked("a", "b", "c", edges=("ab", "ac"))
    assert isinstance(events[-1], ev.RunEnded)
    assert run.state is TaskState.COMPLETED
    assert run.answer_seqs == tuple(run.tasks[sink.task_id].result_seq for sink in run.sinks()) == (6, 7)
    assert not open_effects(run)


def test_an_answer_of_a_role_outside_the_run_is_ignored() -> None:
    run, events = forked("a", "x")
    assert not any(isinstance(event, ev.RunEnded) for event in events)
    assert [place.want.role for place in places(run)] == ["b"]


def test_the_effects_of_a_fork_are_those_of_its_state() -> None:
    for roles in (("a",), ("a", "b"), ("a", "b", "c")):
        empty = RunState()
        run, events = forked(*roles)
        assert is_local(empty, events)
        assert set(effects_of(run, events)) | set(places(run)) == open_effects(run)


def test_a_fork_is_decided_again_from_its_stored_input() -> None:
    run, events = forked("a", "b")
    reused = (inp.ReusedAnswer("a", "answer of a"), inp.ReusedAnswer("b", "answer of b", False))
    given = inp.Submit(submission("new"), "owner", 1, reused)
    ((decoded,), now) = decode_inputs(encode_inputs([given], T0))
    assert decide(RunState(), decoded, now) == events
    assert fold((event, T0) for event in events) == run


def test_a_fork_recovers_lost_attempts_as_any_run() -> None:
    run, _ = forked("a", "b")
    feed(run, inp.SlotFound("new.3", "i"))
    feed(run, inp.LostIn("new.3", 1, BROKEN))
    feed(run, inp.SlotFound("new.3", "j"))
    assert Assign("new.3", 2, 1, "j") in open_effects(run)
    feed(run, inp.ResultIn("new.3", 2, TaskState.COMPLETED, "answer of c"))
    assert run.state is TaskState.COMPLETED
