"""The engine stores each turn of a stateful role once. Line D17 of docs/durability.md."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.codec import decode_inputs, encode_inputs
from archon_mesh.engine.decide.retries import RECOVERY, Kind
from archon_mesh.engine.types import TaskState
from tests.unit.mesh.engine.lead_run import Lead


def turn(run: Lead, number: int = 1, **more: object) -> inp.ResultIn:
    task = run.state.tasks[f"r.{number}"]
    return inp.ResultIn(task.task_id, task.attempt, TaskState.COMPLETED, None, has_turn=True, **more)  # type: ignore[arg-type]


def test_a_turn_is_stored_as_the_next_version() -> None:
    run = Lead()
    (dispatched,) = run.feed(inp.SlotFound("r.1", "i", 4))
    assert isinstance(dispatched, ev.Dispatched) and dispatched.conversation_version == 4
    result, *_ = run.feed(turn(run, read_version=4))
    assert isinstance(result, ev.ResultReceived) and result.stores_turn
    assert run.state.conversation_versions == {"lead": 5}
    assert run.state.state is TaskState.COMPLETED


def test_a_conflict_is_retried_at_once_and_costs_no_other_try() -> None:
    run = Lead()
    run.feed(inp.SlotFound("r.1", "i", 4))
    (retried,) = run.feed(turn(run, version_conflict=True))
    assert isinstance(retried, ev.Retried) and retried.failure.reason == "CONVERSATION_MOVED"
    assert retried.not_before == run.now
    task = run.state.tasks["r.1"]
    assert (task.retries, task.version_conflicts, run.state.recovered) == (0, 1, 0)
    assert run.feed(inp.ResultIn("r.1", 1, TaskState.COMPLETED, None, has_turn=True)) == [], "a repeat changes nothing"
    run.feed(inp.SlotFound("r.1", "i", 5))
    result, *_ = run.feed(turn(run))
    assert isinstance(result, ev.ResultReceived) and result.attempt == 2
    assert run.state.conversation_versions == {"lead": 6}


def test_a_conflict_drops_the_checkpoint() -> None:
    run = Lead()
    run.feed(inp.SlotFound("r.1", "i", 4))
    run.feed(inp.CheckpointIn("r.1", 1, 1, payload="half done"))
    run.feed(turn(run, version_conflict=True))
    assert run.state.tasks["r.1"].checkpoint is None


def test_a_conflict_keeps_the_checkpoint_of_a_question() -> None:
    run = Lead()
    run.feed(inp.SlotFound("r.1", "i", 4))
    question = inp.ResultIn("r.1", 1, TaskState.INPUT_REQUIRED, "which?", input_id="q", checkpointed=True)
    run.feed(question)
    run.feed(inp.Respond(run.state.tasks["r.1"].question, "me", "", "digest", "this"))
    run.feed(inp.SlotFound("r.1", "i", 5))
    (retried,) = run.feed(turn(run, version_conflict=True))
    assert isinstance(retried, ev.Retried)
    assert run.state.tasks["r.1"].checkpoint == "which?"


def test_a_turn_based_on_another_version_conflicts() -> None:
    run = Lead()
    run.feed(inp.SlotFound("r.1", "i", 4))
    (retried,) = run.feed(turn(run, read_version=3))
    assert isinstance(retried, ev.Retried)


def test_the_second_turn_of_a_role_in_one_run_conflicts() -> None:
    run = Lead()
    run.place(1)
    run.delegate(role="clerk", key="a")
    run.delegate(role="clerk", key="b")
    for number in (2, 3):
        run.feed(inp.SlotFound(f"r.{number}", "i", 7))
    first, *_ = run.feed(turn(run, 2))
    assert isinstance(first, ev.ResultReceived) and first.stores_turn
    (second,) = run.feed(turn(run, 3))
    assert isinstance(second, ev.Retried)


def test_an_attempt_without_a_history_stores_no_turn() -> None:
    run = Lead()
    run.place(1)
    result, *_ = run.feed(turn(run))
    assert isinstance(result, ev.ResultReceived) and not result.stores_turn
    assert run.state.conversation_versions == {}


def test_a_failure_adds_nothing() -> None:
    run = Lead()
    run.feed(inp.SlotFound("r.1", "i", 0))
    result, *_ = run.feed(inp.ResultIn("r.1", 1, TaskState.REJECTED, None, has_turn=True, version_conflict=True))
    assert isinstance(result, ev.ResultReceived) and not result.stores_turn


def test_a_task_whose_turn_is_always_second_fails_with_a_reason() -> None:
    run = Lead()
    for number in range(RECOVERY[Kind.CONFLICT].tries):
        assert run.state.state is not TaskState.FAILED
        run.feed(inp.SlotFound("r.1", "i", number))
        run.feed(turn(run, version_conflict=True))
    assert run.state.state is TaskState.FAILED
    assert run.state.failure is not None and run.state.failure.reason == "CONVERSATION_MOVED"
    assert run.state.conversation_versions == {}


def test_the_version_of_the_history_is_stored_with_the_input() -> None:
    inputs = [inp.SlotFound("r.1", "i", 4), inp.SlotFound("r.1", "i"), inp.SlotFound("r.1", "i", 0)]
    assert decode_inputs(encode_inputs(inputs, 1.0)) == (inputs, 1.0)


def test_a_turn_that_is_too_large_fails_in_a_stateful_role_only() -> None:
    run, stateless = Lead(), Lead()
    run.feed(inp.SlotFound("r.1", "i", 4))
    run.feed(turn(run, turn_too_large=True))
    assert run.state.failure is not None and run.state.failure.reason == "MESSAGE_TOO_LARGE"
    assert run.state.conversation_versions == {}
    stateless.place(1)
    stateless.feed(turn(stateless, turn_too_large=True))
    assert stateless.state.state is TaskState.COMPLETED
