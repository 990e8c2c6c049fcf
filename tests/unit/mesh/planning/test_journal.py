"""Plans with a journal: after a crash at any moment another process goes on with what the journal holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from archon.errors import DataLoss, FailedPrecondition, InvalidArgument, OperationCancelled, ResourceExhausted
from archon_mesh.core.media import Media
from archon_mesh.engine import events as ev
from archon_mesh.engine.plan import ReplanPolicy, SubTask, Task, expanded, has_ended
from archon_mesh.planning import (
    Alignment,
    JournalInUse,
    JournalMismatch,
    PlanEvent,
    PlanExecutor,
    PlanFailed,
    PlanJournal,
)
from archon_mesh.planning.records import PlanRecords, as_stored, from_json, to_json
from archon_mesh.tools import tool
from archon_mesh.tools.image import Image
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.waiting import until
from tests.unit.mesh.planning.journals import MemoryJournal
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, no_sleep, plan, planner_of


def results(task: Task) -> dict[str, Any]:
    return {each.id: each.result for each in task.subtasks}


def statuses(task: Task) -> dict[str, str]:
    return {each.id: each.status.value for each in task.subtasks}


class Work:
    """A model that notes its work. The work named in `stuck` begins and does not end."""

    def __init__(self, *stuck: str, failing: Sequence[str] = ()) -> None:
        self.stuck = stuck
        self.failing = failing
        self.begun: list[str] = []
        self.done: list[str] = []

    async def __call__(self, message: str) -> str:
        name = message.splitlines()[0].removeprefix("Do ")
        self.begun.append(name)
        if name in self.stuck:
            await asyncio.Event().wait()
        if name in self.failing:
            raise InvalidArgument("it cannot be done")
        self.done.append(name)
        return f"{name} is done"


async def crashed(executor: PlanExecutor, task: Task, work: Work, journal: MemoryJournal) -> MemoryJournal:
    """Executes a plan until its stuck subtasks have begun, and returns the journal that a crash leaves then."""
    execution = asyncio.create_task(executor.execute(task))
    await until(lambda: set(work.stuck) <= set(work.begun) or execution.done())
    left = journal.after(len(journal.appends))
    execution.cancel()
    with pytest.raises(asyncio.CancelledError):
        await execution
    return left


async def test_a_plan_with_a_journal_is_executed_as_without_one() -> None:
    journal = MemoryJournal()
    task = plan(subtask("a"), subtask("b", "a"), subtask("c"))
    ended = await executor_of(FunctionWorker(think=Work()), journal=journal).execute(task)
    assert ended == await executor_of(FunctionWorker(think=Work())).execute(task)
    assert not journal.is_open


async def test_what_has_completed_is_not_executed_after_a_crash() -> None:
    journal, before, after = MemoryJournal(), Work("b"), Work()
    task = plan(subtask("a"), subtask("b", "a"), subtask("c", "b"))
    left = await crashed(executor_of(FunctionWorker(think=before), journal=journal), task, before, journal)
    worker = FunctionWorker(think=after)
    ended = await executor_of(worker).resume_from(left)
    assert (before.done, after.done) == (["a"], ["b", "c"])
    assert results(ended) == {"a": "a is done", "b": "b is done", "c": "c is done"}
    assert "a is done" in worker.messages[0], "the result of the process before"


CUT = (subtask("a"), subtask("b", "a", critical=True))


class Sources:
    """A planner whose replies follow from what it is asked, and the work of its plans."""

    async def create_plan(self, *arguments: Any, **options: Any) -> Task:
        raise AssertionError

    async def replan(self, task: Task, reason: str, *arguments: Any, **options: Any) -> Task:
        kept = tuple(each for each in task.subtasks if each.status == "completed")
        new = (SubTask("e", "Do e", expand_on_failure=True), SubTask("f", "Do f", dependencies=("e",)))
        return Task(task.id, task.original_query, task.goal, (*kept, *new))

    async def expand(self, task: Task, places: Sequence[str], available_tools: Any = ()) -> Task:
        new = tuple(SubTask(f"{place}-1", f"Do {place}-1") for place in places)
        return expanded(task, Task(task.id, task.original_query, task.goal, new), places)

    def answer(self, task: Task) -> str | None:
        return None


def course(work: Work, journal: MemoryJournal | None, **options: Any) -> PlanExecutor:
    return PlanExecutor(FunctionWorker(think=work), planner=Sources(), journal=journal, sleep=no_sleep, **options)


async def test_a_crash_at_any_moment_loses_and_repeats_nothing() -> None:
    """Failures, a replan and an expansion: each prefix of the appends is a moment at which the process may have died."""
    whole = MemoryJournal()
    failing = ("b", "e")
    ended = await course(Work(failing=failing), whole).execute(plan(*CUT))
    assert len(whole.appends) > 8
    for count in range(2, len(whole.appends) + 1):
        left = whole.after(count)
        events = [event for event, _ in PlanRecords(whole.after(count)).stored.events]
        done = {event.payload for event in events if isinstance(event, ev.ResultReceived)}
        work = Work(failing=failing)
        executor = course(work, None)
        again = await executor.resume_from(left)
        assert results(again) == results(ended), count
        assert statuses(again) == statuses(ended), count
        assert executor.replans == 1, count
        assert not any(f"{name} is done" in done for name in work.done), (count, work.done)


async def test_a_crash_before_the_plan_was_begun_loses_nothing() -> None:
    whole = MemoryJournal()
    await executor_of(FunctionWorker(think=Work()), journal=whole).execute(plan(subtask("a")))
    work = Work()
    assert results(await executor_of(FunctionWorker(think=work)).resume_from(whole.after(2))) == {"a": "a is done"}
    with pytest.raises(JournalMismatch, match="holds no plan yet"):
        await executor_of(FunctionWorker()).resume_from(whole.after(1))


async def test_an_event_is_durable_before_its_effect() -> None:
    journal = MemoryJournal()
    seen: list[int] = []

    async def think(message: str) -> str:
        seen.append(sum(b'"Dispatched' in record for each in journal.appends for record in each))
        return "x"

    await executor_of(FunctionWorker(think=think), journal=journal).execute(plan(subtask("a"), subtask("b", "a")))
    planning = 1
    assert seen == [planning + 1, planning + 2]


async def test_a_finished_plan_is_returned_at_once() -> None:
    journal, events = MemoryJournal(), list[PlanEvent]()
    first = executor_of(FunctionWorker(think=Work()), journal=journal)
    ended = await first.execute(plan(subtask("a"), subtask("b", "a")))
    worker = FunctionWorker(think=Work())
    again = executor_of(worker, journal=journal, on_event=events.append)
    assert await again.resume_from() == ended
    assert worker.messages == []
    assert events == []
    assert set(again.measured) == set(first.measured)
    assert again.measured["a"].cost_micro_usd == first.measured["a"].cost_micro_usd == 7


async def test_the_failure_of_a_plan_is_raised_again() -> None:
    journal = MemoryJournal()
    work = Work(failing=["a"])
    with pytest.raises(PlanFailed) as first:
        await executor_of(FunctionWorker(think=work), journal=journal).execute(plan(subtask("a", critical=True)))
    with pytest.raises(PlanFailed) as again:
        await executor_of(FunctionWorker(think=work)).resume_from(journal)
    assert str(again.value) == str(first.value)
    assert again.value.plans == first.value.plans
    assert work.begun == ["a"]


async def test_a_process_that_dies_three_times_over_a_subtask_fails_it() -> None:
    """As in the mesh: what kills its process is not executed for ever."""
    journal, task = MemoryJournal(), plan(subtask("a"), subtask("b", "a", partial_input=True))
    for count in range(3):
        work = Work("a")
        executor = executor_of(FunctionWorker(think=work), journal=journal)
        execution = asyncio.create_task(executor.execute(task) if not count else executor.resume_from())
        await until(lambda work=work: bool(work.begun))  # type: ignore[misc]
        journal = journal.after(len(journal.appends))
        execution.cancel()
        await asyncio.wait([execution])
    ended = await executor_of(FunctionWorker(think=Work())).resume_from(journal)
    assert statuses(ended) == {"a": "failed", "b": "completed"}
    assert results(ended)["a"] == "its process ended at each attempt"


async def test_a_process_that_is_stopped_is_no_loss() -> None:
    journal, task = MemoryJournal(), plan(subtask("a"))
    for count in range(5):
        work = Work("a")
        executor = executor_of(FunctionWorker(think=work), journal=journal)
        execution = asyncio.create_task(executor.execute(task) if not count else executor.resume_from())
        await until(lambda work=work: bool(work.begun))  # type: ignore[misc]
        executor.cancel()
        with pytest.raises(OperationCancelled):
            await execution
    assert statuses(await executor_of(FunctionWorker(think=Work())).resume_from(journal)) == {"a": "completed"}


async def test_a_result_that_came_as_the_plan_was_stopped_is_kept() -> None:
    journal, work = MemoryJournal(), Work()

    async def think(message: str) -> str:
        answer = await work(message)
        executor.cancel()
        return answer

    executor = executor_of(FunctionWorker(think=think), journal=journal)
    with pytest.raises(OperationCancelled):
        await executor.execute(plan(subtask("a"), subtask("b", "a")))
    await executor_of(FunctionWorker(think=work)).resume_from(journal)
    assert work.done == ["a", "b"]


async def test_a_result_that_came_in_spite_of_the_stop_is_kept() -> None:
    journal, work = MemoryJournal(), Work()
    begun = asyncio.Event()

    async def think(message: str) -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "in spite of it"

    executor = executor_of(FunctionWorker(think=think), journal=journal)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b", "a"))))
    await begun.wait()
    executor.cancel()
    with pytest.raises(OperationCancelled):
        await execution
    ended = await executor_of(FunctionWorker(think=work)).resume_from(journal)
    assert results(ended) == {"a": "in spite of it", "b": "b is done"}
    assert work.done == ["b"]


def booking(calls: list[str], *, idempotent: bool, gate: asyncio.Event) -> Any:
    @tool(idempotent=idempotent)
    async def book(city: str) -> str:
        """Books."""
        calls.append(city)
        await gate.wait()
        return f"booked {city}"

    return book


@pytest.mark.parametrize("stopped", ["killed", "cancelled"])
async def test_a_tool_that_may_have_acted_is_not_called_after_a_crash(stopped: str) -> None:
    calls: list[str] = []
    journal, gate = MemoryJournal(), asyncio.Event()
    task = plan(subtask("a", tool_name="book", tool_args={"city": "Rome"}), subtask("b"))
    worker = FunctionWorker([booking(calls, idempotent=False, gate=gate)], think=Work())
    execution = asyncio.create_task(executor_of(worker, journal=journal).execute(task))
    await until(lambda: bool(calls))
    killed = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    gate.set()
    left = killed if stopped == "killed" else journal
    ended = await executor_of(worker).resume_from(left)
    assert calls == ["Rome"]
    assert statuses(ended) == {"a": "failed", "b": "completed"}
    assert results(ended)["a"] == "the process ended while book was in progress, which may have acted"


async def test_an_idempotent_tool_is_called_after_a_crash() -> None:
    calls: list[str] = []
    journal, gate = MemoryJournal(), asyncio.Event()
    worker = FunctionWorker([booking(calls, idempotent=True, gate=gate)])
    task = plan(subtask("a", tool_name="book", tool_args={"city": "Rome"}))
    execution = asyncio.create_task(executor_of(worker, journal=journal).execute(task))
    await until(lambda: bool(calls))
    left = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    gate.set()
    assert results(await executor_of(worker).resume_from(left)) == {"a": "booked Rome"}
    assert calls == ["Rome", "Rome"]


async def test_a_pause_survives() -> None:
    journal, work = MemoryJournal(), Work("a")
    executor = executor_of(FunctionWorker(think=work), journal=journal)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b", "a"))))
    await until(lambda: bool(work.begun))
    executor.pause()
    left = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    after, events = Work(), list[PlanEvent]()
    resumed = executor_of(FunctionWorker(think=after), on_event=events.append)
    again = asyncio.create_task(resumed.resume_from(left))
    await until(lambda: bool(events))
    assert [event.kind for event in events] == ["continued"]
    assert after.begun == []
    resumed.resume()
    assert has_ended(await again)


async def test_an_edit_survives() -> None:
    journal, work = MemoryJournal(), Work("a")
    executor = executor_of(FunctionWorker(think=work), journal=journal)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b", "a"))))
    await until(lambda: bool(work.begun))
    executor.edit(plan(subtask("a"), subtask("c", "a")))
    left = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    assert list(statuses(await executor_of(FunctionWorker(think=Work())).resume_from(left))) == ["a", "c"]


async def test_a_plan_can_be_edited_after_a_crash() -> None:
    journal, before = MemoryJournal(), Work("b")
    task = plan(subtask("a"), subtask("b", "a"), subtask("c", "b"))
    left = await crashed(executor_of(FunctionWorker(think=before), journal=journal), task, before, journal)
    work = Work("b")
    executor = executor_of(FunctionWorker(think=work))
    execution = asyncio.create_task(executor.resume_from(left))
    await until(lambda: work.begun == ["b"])
    with pytest.raises(FailedPrecondition, match="begun"):
        executor.edit(plan(subtask("x")))
    executor.edit(plan(subtask("a"), subtask("b", "a"), subtask("x", "a")))
    await until(lambda: "x" in work.done)
    execution.cancel()
    await asyncio.wait([execution])
    ended = await executor_of(FunctionWorker(think=Work())).resume_from(left)
    assert list(statuses(ended).values()) == ["completed"] * 3


async def test_counters_of_failures_survive() -> None:
    """Two subtasks in a row fail: one in each process."""
    journal, before = MemoryJournal(), Work("b", failing=["a"])
    task, policy = plan(subtask("a"), subtask("b", "a", partial_input=True)), ReplanPolicy(failures_of_subtask=10)
    left = await crashed(course(before, journal, policy=policy), task, before, journal)
    executor = course(Work(failing=["b"]), None)
    ended = await executor.resume_from(left)
    assert executor.replans == 1
    assert {"e", "f"} <= set(statuses(ended))


async def test_the_problem_of_the_last_attempt_is_told_to_the_next_process() -> None:
    journal = MemoryJournal()
    answers = iter(["", None])

    async def think(message: str) -> str:
        if (answer := next(answers)) is None:
            await asyncio.Event().wait()
        return str(answer)

    worker = FunctionWorker(think=think)
    execution = asyncio.create_task(executor_of(worker, journal=journal).execute(plan(subtask("a"))))
    await until(lambda: len(worker.messages) == 2)
    left = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    again = FunctionWorker()
    executor = executor_of(again)
    await executor.resume_from(left)
    assert "The last attempt was not accepted: the result is empty" in again.messages[0]
    assert executor.measured["a"].attempts == 3


async def test_a_crash_while_a_replaced_subtask_is_being_stopped_is_survived() -> None:
    """The plan does not have it any more, but its attempt has not ended yet."""
    journal, stopping = MemoryJournal(), asyncio.Event()

    async def think(message: str) -> str:
        if message.startswith("Do a"):
            raise InvalidArgument("no")
        if message.startswith("Do b"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stopping.set()
                await asyncio.Event().wait()  # until it is cancelled again
        return "done"

    executor = PlanExecutor(FunctionWorker(think=think), planner=Sources(), journal=journal, sleep=no_sleep)
    execution = asyncio.create_task(executor.execute(plan(subtask("b"), subtask("a", critical=True))))
    await stopping.wait()
    left = journal.after(len(journal.appends))
    execution.cancel()
    await asyncio.wait([execution])
    ended = await course(Work(), None).resume_from(left)
    assert statuses(ended) == {"e": "completed", "f": "completed"}


async def test_events_that_make_no_plan_are_data_loss() -> None:
    journal = MemoryJournal()
    await executor_of(FunctionWorker(think=Work()), journal=journal).execute(plan(subtask("a"), subtask("b", "a")))
    del journal.appends[3]
    with pytest.raises(DataLoss, match="the events of the journal make no plan"):
        await executor_of(FunctionWorker()).resume_from(journal)
    assert not journal.is_open


async def test_the_policy_is_the_one_that_the_plan_began_with() -> None:
    journal, before = MemoryJournal(), Work("a")
    executor = PlanExecutor(
        FunctionWorker(think=before), planner=Sources(), policy=ReplanPolicy(max_replans=0), journal=journal
    )
    left = await crashed(executor, plan(subtask("a", critical=True)), before, journal)
    with pytest.raises(PlanFailed):
        await course(Work(failing=["a"]), None).resume_from(left)


async def test_a_plan_goes_on_without_its_planner_and_its_check() -> None:
    async def aligned(task: Task) -> Alignment:
        return Alignment()

    journal, before = MemoryJournal(), Work("b")
    executor = PlanExecutor(FunctionWorker(think=before), planner=Sources(), alignment=aligned, journal=journal)
    task = plan(subtask("a"), subtask("b", "a", critical=True), subtask("c", "b"))
    left = await crashed(executor, task, before, journal)
    with pytest.raises(PlanFailed, match="without a planner"):
        await executor_of(FunctionWorker(think=Work(failing=["b"]))).resume_from(left.after(len(left.appends)))
    assert has_ended(await executor_of(FunctionWorker(think=Work())).resume_from(left))


async def test_given_results_are_kept() -> None:
    journal, before = MemoryJournal(), Work("b")
    task = plan(subtask("a"), subtask("b", "a"))
    task = task.update_subtask(task.subtasks[0].with_result({"price": 120}))
    left = await crashed(executor_of(FunctionWorker(think=before), journal=journal), task, before, journal)
    for count in range(2, len(left.appends) + 1):
        work = Work()
        ended = await executor_of(FunctionWorker(think=work)).resume_from(left.after(count))
        assert results(ended) == {"a": {"price": 120}, "b": "b is done"}
        assert work.done == ["b"]


async def test_a_clock_that_was_set_back_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, before = MemoryJournal(), Work("b")
    task = plan(subtask("a"), subtask("b", "a"))
    left = await crashed(executor_of(FunctionWorker(think=before), journal=journal), task, before, journal)
    monkeypatch.setattr("archon_mesh.planning.run_clock.time.time", lambda: 1_000.0)
    executor = executor_of(FunctionWorker(think=Work()), journal=left)
    await executor.resume_from()
    times = [time for _, time in PlanRecords(left).stored.events]
    assert times == sorted(times)


# Refusals ------------------------------------------------------------------------------------------------------------


async def test_a_journal_in_use_is_refused_to_another_plan() -> None:
    journal, work = MemoryJournal(), Work("a")
    executor = executor_of(FunctionWorker(think=work), journal=journal)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"))))
    await until(lambda: bool(work.begun))
    with pytest.raises(JournalInUse):
        await executor_of(FunctionWorker()).resume_from(journal)
    execution.cancel()
    await asyncio.wait([execution])
    assert not journal.is_open


async def test_a_journal_with_a_plan_is_not_given_another_one() -> None:
    journal = MemoryJournal()
    await executor_of(FunctionWorker(think=Work()), journal=journal).execute(plan(subtask("a")))
    appends = list(journal.appends)
    with pytest.raises(JournalMismatch, match="holds a plan already"):
        await executor_of(FunctionWorker(), journal=journal).execute(plan(subtask("b")))
    assert journal.appends == appends
    other = MemoryJournal(appends[:1])
    with pytest.raises(JournalMismatch, match="of another query, 'Do it'"):
        await executor_of(FunctionWorker(), journal=other).execute(plan(subtask("b"), query="Do something else"))


async def test_without_a_journal_there_is_nothing_to_go_on_with() -> None:
    with pytest.raises(InvalidArgument):
        await executor_of(FunctionWorker()).resume_from()


@pytest.mark.parametrize("record", [b"", b"x", b"[]", b"{}", b"[1]", b'[1,"unknown",0]', b'[1,"events",0,[{"No":[]}]]'])
async def test_a_record_that_cannot_be_read_is_data_loss(record: bytes) -> None:
    journal = MemoryJournal([[record]])
    with pytest.raises(DataLoss, match="record 1 of the journal cannot be read"):
        await executor_of(FunctionWorker()).resume_from(journal)
    assert not journal.is_open


async def test_a_record_of_a_newer_version_is_a_mismatch() -> None:
    with pytest.raises(JournalMismatch, match="newer version"):
        await executor_of(FunctionWorker()).resume_from(MemoryJournal([[b'[2,"unknown"]']]))


@pytest.mark.parametrize("full_at", range(12))
async def test_a_full_journal_stops_the_plan_and_room_lets_it_go_on(full_at: int) -> None:
    journal, work = MemoryJournal(full_at=full_at), Work()
    task = plan(subtask("a"), subtask("b", "a"), subtask("c"))
    executor = executor_of(FunctionWorker(think=work), journal=journal)
    try:
        await executor.execute(task)
    except ResourceExhausted:
        pass
    else:
        assert len(journal.appends) <= full_at
    journal.full_at = None
    if len(journal.appends) < 2:
        return
    ended = await executor_of(FunctionWorker(think=work), journal=journal).resume_from()
    assert list(statuses(ended).values()) == ["completed"] * 3
    assert max(Counter(work.done).values()) <= 2


async def test_a_command_that_cannot_be_noted_raises_and_stops_the_plan() -> None:
    journal, work = MemoryJournal(), Work("a")
    executor = executor_of(FunctionWorker(think=work), journal=journal)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"))))
    await until(lambda: bool(work.begun))
    journal.full_at = 0
    with pytest.raises(ResourceExhausted):
        executor.pause()
    with pytest.raises(ResourceExhausted):
        await execution


# Values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        "\ud800 a lone surrogate",
        2**80,
        0.1,
        float("inf"),
        [1, [2, {"a": None}]],
        {"$archon": 1},
        {"$archon": {"file": "Media"}},
        {"$archon": {"$archon": []}, "b": 1},
        Image(b"\x00\xff", name="a.png"),
        [Media(b"", url="https://example.com/a"), "text"],
    ],
)
def test_a_value_is_read_as_it_was_written(value: Any) -> None:
    assert from_json(to_json(value)) == value
    assert as_stored(value, "it") == value


def test_tuples_and_keys_are_read_as_json_has_them() -> None:
    assert as_stored({1: (1, 2), None: True}, "it") == {"1": [1, 2], "null": True}


def test_a_value_without_a_json_form_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (object(), {1, 2}, b"bytes", {(1, 2): 3}, loop):
        with pytest.raises(InvalidArgument, match=r"^it cannot be kept in a journal"):
            as_stored(value, "it")


async def test_a_result_that_cannot_be_kept_fails_its_subtask() -> None:
    calls: list[str] = []

    def odd(message: str) -> Any:
        calls.append(message)
        return object()

    worker = FunctionWorker(roles={"odd": odd}, think=Work())
    ended = await executor_of(worker, journal=MemoryJournal()).execute(plan(subtask("a", role="odd"), subtask("b")))
    assert statuses(ended) == {"a": "failed", "b": "completed"}
    assert results(ended)["a"] == "the result of subtask a cannot be kept in a journal: object is no JSON value"
    assert len(calls) == 1


async def test_a_result_that_is_too_large_fails_its_subtask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.planning.records.MAX_VALUE_BYTES", 1 << 20)
    worker = FunctionWorker(think=lambda message: "\N{SNOWMAN}" * (400_000 if message.startswith("Do a") else 300_000))
    ended = await executor_of(worker, journal=MemoryJournal()).execute(plan(subtask("a"), subtask("b")))
    assert results(ended)["a"] == "the result of subtask a is larger than the 1 MiB that a journal keeps"
    assert len(results(ended)["b"]) == 300_000


async def test_values_of_a_plan_without_a_json_form_are_refused_before_it_begins() -> None:
    journal, worker = MemoryJournal(), FunctionWorker()
    task = Task("t", "Do it", "Do it", plan(subtask("a")).subtasks, {"connection": object()})
    with pytest.raises(InvalidArgument, match="object is no JSON value"):
        await executor_of(worker, journal=journal).execute(task)
    assert (worker.messages, journal.appends, journal.is_open) == ([], [], False)


async def test_a_result_is_the_same_before_and_after_a_crash() -> None:
    """With a journal a tuple is a list at once: templates and checks see the same in every process."""
    worker = FunctionWorker(roles={"pair": lambda message: (1, 2)})
    ended = await executor_of(worker, journal=MemoryJournal()).execute(plan(subtask("a", role="pair")))
    assert results(ended) == {"a": [1, 2]}


def test_a_journal_of_ones_own_fits_the_protocol() -> None:
    journal: PlanJournal = MemoryJournal()
    assert list(journal.open()) == []


async def test_a_planner_is_asked_again_after_a_crash_in_a_replan() -> None:
    planner, model = planner_of(reply(subtask("b")))
    work = Work(failing=["a"])
    journal = MemoryJournal()
    executor = PlanExecutor(FunctionWorker(think=work), planner=planner, journal=journal, sleep=no_sleep)
    await executor.execute(plan(subtask("a", critical=True)))
    replanning = next(
        number
        for number, each in enumerate(journal.appends)
        if number > 3 and b'"ResultReceived' in b"".join(each) and b'"TaskCreated"' in b"".join(each)
    )
    again, asked = planner_of(reply(subtask("b")))
    executor = PlanExecutor(FunctionWorker(think=work), planner=again, sleep=no_sleep)
    ended = await executor.resume_from(journal.after(replanning + 1))
    assert statuses(ended) == {"b": "completed"}
    assert (model.remaining, asked.remaining) == (0, 0)
