"""The queue of a conversation, and the history that is read before a task is dispatched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from archon.errors import Unavailable
from archon_mesh.engine import Place, RunState, apply
from archon_mesh.engine import inputs as inp
from archon_mesh.engine.decide.engine import decide
from archon_mesh.engine.types import Failure, Requirement, Submission
from archon_services.orchestrator.journal import Conversation, MemoryJournal
from archon_services.orchestrator.runs.turn import session_history
from archon_services.orchestrator.runs.turn.session_history import SessionHistory, TurnQueue

KEY = ("default", "s", "clerk")
PLACE = Place("r.1", Requirement("clerk"), 1, 0.0)


def run_of(session: str = "s") -> RunState:
    run = RunState()
    submission = Submission("r", "default", "", session, "agent", ("clerk",), (), 60.0, None)
    for event in decide(run, inp.Submit(submission, "owner", 1), 1.0):
        apply(run, event, 1.0)
    return run


def turns_of(*names: str) -> tuple[TurnQueue, list[str], dict[str, Callable[[], None]]]:
    turns, woken = TurnQueue(), list[str]()
    return turns, woken, {name: (lambda name=name: woken.append(name)) for name in names}  # type: ignore[misc]


def test_turns_are_taken_in_the_order_of_requests() -> None:
    turns, woken, wake = turns_of("a", "b", "c")
    assert [turns.take(KEY, name, wake[name]) for name in "abc"] == [True, False, False]
    assert turns.take(KEY, "a", wake["a"]), "the first task keeps its turn"
    turns.leave(KEY, "a")
    assert woken == ["b"]
    assert turns.take(KEY, "b", wake["b"]) and not turns.take(KEY, "c", wake["c"])


def test_a_task_that_leaves_its_queue_blocks_no_other() -> None:
    turns, woken, wake = turns_of("a", "b", "c")
    for name in "abc":
        turns.take(KEY, name, wake[name])
    turns.leave(KEY, "b")
    turns.leave(KEY, "a")
    assert woken[-1] == "c" and turns.take(KEY, "c", wake["c"])
    assert turns.take(("default", "t", "clerk"), "b", wake["b"])
    turns.leave(KEY, "unknown")
    turns.leave(KEY, "c")
    assert turns.take(KEY, "a", wake["a"]), "after all have left, the next task has its turn"


async def test_a_task_waits_until_its_conversation_is_read() -> None:
    woken: list[int] = []
    journal = MemoryJournal()
    history = SessionHistory(journal, TurnQueue(), lambda role: True, lambda: woken.append(1))
    assert history.waits(run_of(), PLACE) and woken == [1]
    assert history.version(PLACE) is None
    await history.read()
    assert not history.waits(run_of(), PLACE)
    assert (history.version(PLACE), history.turns("r.1")) == (0, ())
    assert history.waits(run_of(), Place("r.1", Requirement("clerk"), 2, 0.0)), (
        "the history is read again for a later attempt"
    )
    history.cancel()


@pytest.mark.parametrize(("session", "stateful"), [("", True), ("s", False)])
async def test_a_task_without_a_conversation_waits_for_nothing(session: str, stateful: bool) -> None:
    history = SessionHistory(MemoryJournal(), TurnQueue(), lambda role: stateful, lambda: None)
    assert not history.waits(run_of(session), PLACE)
    assert history.version(PLACE) is None


async def test_a_task_that_ends_leaves_the_queue() -> None:
    turns, run = TurnQueue(), run_of()
    first, second = (SessionHistory(MemoryJournal(), turns, lambda role: True, lambda: None) for _ in range(2))
    first.waits(run, PLACE)
    other_place = Place("x.1", Requirement("clerk"), 1, 0.0)
    other_run = run_of()
    other_run.tasks["x.1"] = other_run.tasks["r.1"]
    second.waits(other_run, other_place)
    await second.read()
    assert second.version(other_place) is None, "the first task has the turn"
    first.release(run)
    await second.read()
    assert second.version(other_place) is None, "the first task still needs the turn"
    for event in decide(run, inp.Cancel("me", "enough"), 2.0):
        apply(run, event, 2.0)
    first.release(run)
    await second.read()
    assert second.version(other_place) == 0
    second.cancel()


async def test_a_task_whose_step_was_not_stored_leaves_the_queue() -> None:
    turns, run = TurnQueue(), run_of()
    history = SessionHistory(MemoryJournal(), turns, lambda role: True, lambda: None)
    run.tasks["r.2"] = run.tasks["r.1"]
    history.waits(run, Place("r.2", Requirement("clerk"), 1, 0.0))
    del run.tasks["r.2"]  # the run is read from the journal again, which has no such task
    history.release(run)
    assert turns.take(KEY, "another", lambda: None)


async def test_history_for_the_next_attempt_is_kept_until_its_dispatch() -> None:
    class OneTurn(MemoryJournal):
        async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
            return Conversation(1, (b"turn",))

    run = run_of()
    for event in decide(run, inp.SlotFound("r.1", "i", 1), 2.0):
        apply(run, event, 2.0)
    assert run.tasks["r.1"].live and run.tasks["r.1"].attempt == 1
    history = SessionHistory(OneTurn(), TurnQueue(), lambda role: True, lambda: None)
    # the append of attempt 2 is refused: the journal has attempt 1 only
    history.waits(run, Place("r.1", Requirement("clerk"), 2, 0.0))
    await history.read()
    history.release(run)
    assert history.turns("r.1") == (b"turn",)
    for event in decide(run, inp.LostIn("r.1", 1, Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")), 3.0):
        apply(run, event, 3.0)
    for event in decide(run, inp.SlotFound("r.1", "i", 1), 9.0):
        apply(run, event, 9.0)
    assert run.tasks["r.1"].attempt == 2
    history.release(run)
    assert history.turns("r.1") == (), "the history was sent with the attempt"
    history.cancel()


async def test_a_task_waits_for_another_turn_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_history, "PATIENCE", 0.02)
    turns, woken = TurnQueue(), asyncio.Event()
    turns.take(KEY, "another", lambda: None)
    history = SessionHistory(MemoryJournal(), turns, lambda role: True, woken.set)
    assert history.waits(run_of(), PLACE) and not woken.is_set()
    await asyncio.wait_for(woken.wait(), 60)
    await history.read()
    assert history.version(PLACE) == 0
    history.cancel()


async def test_a_failed_read_of_the_journal_raises_and_may_be_repeated() -> None:
    class Away(MemoryJournal):
        away = True

        async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
            if self.away:
                raise Unavailable("not now")
            return await super().conversation(tenant, session_id, role)

    journal = Away()
    history = SessionHistory(journal, TurnQueue(), lambda role: True, lambda: None)
    history.waits(run_of(), PLACE)
    with pytest.raises(Unavailable):
        await history.read()
    journal.away = False
    await history.read()
    assert history.version(PLACE) == 0
