"""The context of tasks by example; `test_engine` and `test_delegation` have the plain cases."""

from __future__ import annotations

from archon_mesh.engine import events as ev
from archon_mesh.engine.context import context_of
from archon_mesh.engine.types import ContextRef, SessionContextRef
from tests.unit.mesh.engine.lead_run import Lead

DIAMOND = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))


def roles(run: Lead, number: int) -> list[str]:
    return [context.role for context in context_of(run.state, run.state.tasks[f"r.{number}"])]


def answered(run: Lead, *numbers: int) -> None:
    for number in numbers:
        run.place(number)
        run.result(number)


def test_a_diamonds_sink_gets_each_ancestor_once() -> None:
    for deep, expected in (((), ["b", "c"]), (("d",), ["a", "b", "c"])):
        run = Lead(("a", "b", "c", "d"), edges=DIAMOND, all_ancestors=deep)
        answered(run, 1, 3, 2)
        assert roles(run, 4) == expected, "the order is that of dependencies, not of results"


def test_a_role_without_predecessors_gets_no_context() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"),), all_ancestors=("a",))
    assert roles(run, 1) == []


def test_context_refers_to_the_event_that_holds_the_answer() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"),))
    answered(run, 1)
    run.place(2)
    assert run.state.tasks["r.2"].context == (ContextRef("a", run.state.tasks["r.1"].result_seq),)


def test_a_delegated_task_gets_answers_of_its_pipeline() -> None:
    run = Lead(("a", "b"), edges=(("a", "b"), ("a", "helper"), ("b", "helper")))
    answered(run, 1)
    run.place(2)
    run.delegate(2, "helper")
    assert roles(run, 3) == ["a"], "b has no answer yet"


def test_a_delegated_task_gets_the_newest_answer_at_any_depth() -> None:
    run = Lead(edges=(("a", "c"),), targets=("a", "b", "c"))
    run.place(1)
    run.delegate(role="a")
    answered(run, 2)
    run.delegate(role="b")
    run.place(3)
    run.delegate(3, "a")
    answered(run, 4)
    run.delegate(role="c")
    assert context_of(run.state, run.state.tasks["r.5"]) == (ContextRef("a", run.state.tasks["r.4"].result_seq),)


def test_delegated_ancestors_come_in_dependency_order() -> None:
    run = Lead(edges=DIAMOND, targets=("a", "b", "c", "d", "stranger"), all_ancestors=("d",))
    run.place(1)
    for number, role in enumerate(("c", "stranger", "b", "a"), 2):
        run.delegate(role=role)
        answered(run, number)
    run.delegate(role="d")
    assert roles(run, 6) == ["a", "b", "c"]


def test_a_live_task_is_context_of_the_next_attempt_only() -> None:
    run = Lead(edges=(("a", "b"),), targets=("a", "b"))
    run.place(1)
    run.delegate(role="a"), run.delegate(role="b")
    run.place(2, 3)
    assert roles(run, 3) == []
    run.result(2)
    run.lose(3)
    run.place(3)
    assert roles(run, 3) == ["a"]


def test_durability_16_session_answers_come_first_per_reader() -> None:
    session_context = (SessionContextRef("x", 3, ("a", "b")), SessionContextRef("y", 1, ("b",)))
    run = Lead(("a", "b"), edges=(("a", "b"),), session_context=session_context)
    answered(run, 1)
    run.place(2)
    assert run.state.tasks["r.1"].context == (ContextRef("x", 0, 3, "s"),)
    assert run.state.tasks["r.2"].context == (
        ContextRef("x", 0, 3, "s"),
        ContextRef("y", 0, 1, "s"),
        ContextRef("a", run.state.tasks["r.1"].result_seq),
    )


def test_durability_16_attempts_share_the_session_context() -> None:
    run = Lead(("a",), session_context=(SessionContextRef("x", 3, ("a",)),))
    run.place(1)
    run.lose(1)
    run.place(1)
    assert [event.context for event in run.log if isinstance(event, ev.Dispatched)] == [
        (ContextRef("x", 0, 3, "s"),)
    ] * 2


def test_an_answer_of_this_run_takes_the_place_of_the_sessions() -> None:
    run = Lead(edges=(("a", "c"),), targets=("a", "c"), session_context=(SessionContextRef("a", 7, ("c",)),))
    run.place(1)
    run.delegate(role="c")
    assert context_of(run.state, run.state.tasks["r.2"]) == (ContextRef("a", 0, 7, "s"),), (
        "the role has no answer in this run yet"
    )
    run.delegate(role="a")
    answered(run, 3)
    assert context_of(run.state, run.state.tasks["r.2"]) == (ContextRef("a", run.state.tasks["r.3"].result_seq),)
