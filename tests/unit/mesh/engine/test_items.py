"""Items that tasks publish before their answers or with them: who receives which, and when."""

from __future__ import annotations

import pytest

from archon_mesh.engine import UpdateMemory
from archon_mesh.engine import events as ev
from archon_mesh.engine.context import context_of
from archon_mesh.engine.fold.apply import fold
from archon_mesh.engine.types import ContextRef, Item, TaskState
from tests.unit.mesh.engine.lead_run import Lead

FINAL, TOOLS, HISTORY = 1, 2, 3


def context(run: Lead, number: int) -> list[tuple[str, int]]:
    """The role and the policy of each answer or item that the task receives."""
    received = []
    for ref in context_of(run.state, run.state.tasks[f"r.{number}"]):
        event = run.log[ref.seq - 1]
        received.append((ref.role, event.item.policy if isinstance(event, ev.ItemPublished) else 0))
    return received


@pytest.mark.parametrize(("policy", "received"), [(FINAL, 0), (TOOLS, TOOLS), (HISTORY, HISTORY)])
def test_an_edge_lets_through_the_newest_item_of_its_policy_in_place_of_the_answer(policy: int, received: int) -> None:
    run = Lead(("a", "b"), edges=(("a", "b", policy),))
    run.place(1)
    run.result(items=(Item(TOOLS, None), Item(HISTORY, None)))
    assert context(run, 2) == [("a", received)]


def test_the_answer_replaces_what_was_published_before_it() -> None:
    run = Lead(("a", "b"), edges=(("a", "b", HISTORY),))
    run.place(1)
    run.publish(1, HISTORY)
    run.result()
    assert context(run, 2) == [("a", 0)]


def test_items_of_an_answer_that_is_not_published_or_failed_are_dropped() -> None:
    for more in ({"publish": False}, {"state": TaskState.FAILED}):
        run = Lead(("a", "b"), edges=(("a", "b", HISTORY),))
        run.place(1)
        run.result(items=(Item(HISTORY, None),), **more)
        assert not any(isinstance(event, ev.ItemPublished) for event in run.log)


def test_the_final_answers_of_a_run_are_its_results() -> None:
    run = Lead(("a",))
    run.place(1)
    received, published, ended = run.result(items=(Item(HISTORY, None),))
    assert isinstance(published, ev.ItemPublished)
    assert isinstance(ended, ev.RunEnded)
    assert run.log[ended.answer_seqs[0] - 1] is received


def test_an_ancestors_item_needs_a_path_that_lets_it_through() -> None:
    edges = (("a", "b", FINAL), ("b", "d", HISTORY), ("a", "c", TOOLS), ("c", "d", HISTORY))
    run = Lead(("a", "b", "c", "d"), edges=edges, all_ancestors=("d",))
    for number in (1, 2, 3):
        run.place(number)
        run.result(number, items=(Item(TOOLS, None), Item(HISTORY, None)))
    assert context(run, 4) == [("a", TOOLS), ("b", HISTORY), ("c", HISTORY)]


def test_a_frame_that_comes_again_publishes_once() -> None:
    run = Lead(("a",))
    run.place(1)
    assert len(run.publish(1, TOOLS, sequence=3)) == 1
    assert run.publish(1, TOOLS, sequence=3) == []


def test_a_superseded_attempt_publishes_nothing() -> None:
    run = Lead(("a",))
    run.place(1)
    run.state.tasks["r.1"].stopping = True
    assert run.publish(1) == []


def coordinated(policy: int = FINAL) -> Lead:
    """A lead that has delegated to a, and to b, which depends on a; both work."""
    run = Lead(edges=(("a", "b", policy),), targets=("a", "b"))
    run.place(1)
    run.delegate(role="a")
    run.delegate(role="b")
    run.place(2, 3)
    return run


def updates(run: Lead) -> list[ContextRef]:
    """What has to be sent to the attempt of b."""
    opened = run.opened(UpdateMemory)
    assert {effect.task_id for effect in opened} <= {"r.3"}
    return [effect.ref for effect in opened]


def test_roles_that_work_at_the_same_time_receive_each_item_and_then_the_answer() -> None:
    run = coordinated()
    assert updates(run) == []
    run.publish(2)
    assert updates(run) == [ContextRef("a", run.state.last_seq)]
    run.publish(2)
    assert updates(run) == [ContextRef("a", run.state.last_seq)]
    run.publish(2, HISTORY)
    assert updates(run) == [ContextRef("a", run.state.last_seq - 1)], "its edge does not let this one through"
    run.result(2)
    assert updates(run) == [ContextRef("a", run.state.tasks["r.2"].result_seq)]


def test_an_attempt_that_was_given_an_answer_is_not_sent_it_again() -> None:
    run = coordinated()
    run.result(2)
    run.lose(3)
    run.place(3)
    assert run.state.tasks["r.3"].context == (ContextRef("a", run.state.tasks["r.2"].result_seq),)
    assert updates(run) == []


def test_the_version_of_an_item_is_recorded_once() -> None:
    run = Lead(("a", "b"), edges=(("a", "b", HISTORY),))
    run.place(1)
    run.result(items=(Item(HISTORY, None),))
    seq = run.state.last_seq
    (published,) = run.stored(1, seq, 7)
    assert run.stored(1, seq, 7) == []
    assert isinstance(published, ev.Published)
    task = run.state.tasks["r.1"]
    assert (task.memory_version, [item.version for item in task.items]) == (0, [7])
    assert fold((event, run.now) for event in run.log) == run.state
