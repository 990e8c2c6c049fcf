"""Whose turn it is in a conversation, and what is read of it before a task is given out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from archon.errors import Unavailable
from archon_mesh.core.run import Place, RunState, apply, decide
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Failure, Requirement, Submission
from archon_services.orchestrator.journal import Conversation, MemoryJournal
from archon_services.orchestrator.runs import session_history as conversing
from archon_services.orchestrator.runs.session_history import SessionHistory, TurnQueue

KEY = ("default", "s", "clerk")
PLACE = Place("r.1", Requirement("clerk"), 1, 0.0)


def run_of(session: str = "s") -> RunState:
    run = RunState()
    said = Submission("r", "default", "", session, "agent", ("clerk",), (), 60.0, None)
    for event in decide(run, inp.Submit(said, "owner", 1), 1.0):
        apply(run, event, 1.0)
    return run


def turns_of(*names: str) -> tuple[TurnQueue, list[str], dict[str, Callable[[], None]]]:
    turns, woken = TurnQueue(), list[str]()
    return turns, woken, {name: (lambda name=name: woken.append(name)) for name in names}  # type: ignore[misc]


def test_turns_are_taken_in_the_order_in_which_they_were_asked_for() -> None:
    turns, woken, wake = turns_of("a", "b", "c")
    assert [turns.take(KEY, name, wake[name]) for name in "abc"] == [True, False, False]
    assert turns.take(KEY, "a", wake["a"]), "asked again it stays its turn"
    turns.leave(KEY, "a")
    assert woken == ["b"]
    assert turns.take(KEY, "b", wake["b"]) and not turns.take(KEY, "c", wake["c"])


def test_who_leaves_the_line_holds_nobody_up_and_other_conversations_have_lines_of_their_own() -> None:
    turns, woken, wake = turns_of("a", "b", "c")
    for name in "abc":
        turns.take(KEY, name, wake[name])
    turns.leave(KEY, "b")
    turns.leave(KEY, "a")
    assert woken[-1] == "c" and turns.take(KEY, "c", wake["c"])
    assert turns.take(("default", "t", "clerk"), "b", wake["b"])
    turns.leave(KEY, "nobody")
    turns.leave(KEY, "c")
    assert turns.take(KEY, "a", wake["a"]), "an empty line is none"


async def test_a_task_waits_until_its_conversation_is_read_and_then_is_told_that_version() -> None:
    woken: list[int] = []
    journal = MemoryJournal()
    one = SessionHistory(journal, TurnQueue(), lambda role: True, lambda: woken.append(1))
    assert one.waits(run_of(), PLACE) and woken == [1]
    assert one.version(PLACE) is None
    await one.read()
    assert not one.waits(run_of(), PLACE)
    assert (one.version(PLACE), one.turns("r.1")) == (0, ())
    assert one.waits(run_of(), Place("r.1", Requirement("clerk"), 2, 0.0)), "a later attempt is told anew"
    one.cancel()


@pytest.mark.parametrize(("session", "stateful"), [("", True), ("s", False)])
async def test_without_a_session_or_a_role_that_remembers_nothing_is_waited_for(session: str, stateful: bool) -> None:
    one = SessionHistory(MemoryJournal(), TurnQueue(), lambda role: stateful, lambda: None)
    assert not one.waits(run_of(session), PLACE)
    assert one.version(PLACE) is None


async def test_the_turn_is_left_when_the_task_needs_it_no_more() -> None:
    turns, run = TurnQueue(), run_of()
    first, second = (SessionHistory(MemoryJournal(), turns, lambda role: True, lambda: None) for _ in range(2))
    first.waits(run, PLACE)
    other = Place("x.1", Requirement("clerk"), 1, 0.0)
    theirs = run_of()
    theirs.tasks["x.1"] = theirs.tasks["r.1"]
    second.waits(theirs, other)
    await second.read()
    assert second.version(other) is None, "it isn't its turn"
    first.release(run)
    await second.read()
    assert second.version(other) is None, "the first is ready still"
    for event in decide(run, inp.Cancel("me", "enough"), 2.0):
        apply(run, event, 2.0)
    first.release(run)
    await second.read()
    assert second.version(other) == 0
    second.cancel()


async def test_what_a_next_attempt_is_to_be_told_is_kept_while_the_one_before_it_is_live_still() -> None:
    class Told(MemoryJournal):
        async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
            return Conversation(1, (b"said",))

    run = run_of()
    for event in decide(run, inp.SlotFound("r.1", "i", 1), 2.0):
        apply(run, event, 2.0)
    assert run.tasks["r.1"].live and run.tasks["r.1"].attempt == 1
    one = SessionHistory(Told(), TurnQueue(), lambda role: True, lambda: None)
    one.waits(
        run, Place("r.1", Requirement("clerk"), 2, 0.0)
    )  # its append is refused: the journal knows the first alone
    await one.read()
    one.release(run)
    assert one.turns("r.1") == (b"said",)
    for event in decide(run, inp.LostIn("r.1", 1, Failure("UNAVAILABLE", "INSTANCE_LOST", "gone")), 3.0):
        apply(run, event, 3.0)
    for event in decide(run, inp.SlotFound("r.1", "i", 1), 9.0):
        apply(run, event, 9.0)
    assert run.tasks["r.1"].attempt == 2
    one.release(run)
    assert one.turns("r.1") == (), "it was handed over"
    one.cancel()


async def test_nobody_waits_for_ever_for_anothers_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversing, "PATIENCE", 0.02)
    turns, woken = TurnQueue(), asyncio.Event()
    turns.take(KEY, "another", lambda: None)
    one = SessionHistory(MemoryJournal(), turns, lambda role: True, woken.set)
    assert one.waits(run_of(), PLACE) and not woken.is_set()
    await asyncio.wait_for(woken.wait(), 2.0)
    await one.read()
    assert one.version(PLACE) == 0
    one.cancel()


async def test_a_journal_that_cannot_be_read_is_said_and_asked_again() -> None:
    class Away(MemoryJournal):
        away = True

        async def conversation(self, tenant: str, session_id: str, role: str) -> Conversation:
            if self.away:
                raise Unavailable("not now")
            return await super().conversation(tenant, session_id, role)

    journal = Away()
    one = SessionHistory(journal, TurnQueue(), lambda role: True, lambda: None)
    one.waits(run_of(), PLACE)
    with pytest.raises(Unavailable):
        await one.read()
    journal.away = False
    await one.read()
    assert one.version(PLACE) == 0
