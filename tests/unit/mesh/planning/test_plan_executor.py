"""The execution of plans in process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archon.errors import BudgetExhausted, FailedPrecondition, InvalidArgument, OperationCancelled, Unavailable
from archon_mesh.engine.plan import PlanCycle, ReplanPolicy, SubTaskStatus, Task, has_ended
from archon_mesh.planning import CheckedResult, PlanEvent, PlanEventKind, PlanExecutor, PlanFailed
from archon_mesh.tools import ToolResult, tool
from archon_mesh.tools.builtin import Calculator
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.waiting import until
from tests.unit.mesh.engine.plan.plans import plans
from tests.unit.mesh.planning.workers import FunctionWorker, executor_of, no_sleep, plan, planner_of


def results(task: Task) -> dict[str, Any]:
    return {each.id: each.result for each in task.subtasks}


def statuses(task: Task) -> dict[str, str]:
    return {each.id: each.status.value for each in task.subtasks}


def failing(*words: str) -> Callable[[str], str]:
    """Returns a model that fails at the subtasks with these descriptions, for good."""

    def think(message: str) -> str:
        if any(message.startswith(f"Do {word}\n") for word in words):
            raise InvalidArgument("it cannot be done")
        return f"done: {message.splitlines()[0]}"

    return think


class Gate:
    """A model whose answers wait until they are let through."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting: list[str] = []
        self.most = 0
        self.cancelled: list[str] = []

    async def __call__(self, message: str) -> str:
        name = message.splitlines()[0]
        self.waiting.append(name)
        self.most = max(self.most, len(self.waiting))
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.waiting.remove(name)
        return name


async def test_results_flow_into_the_arguments_of_tools() -> None:
    worker = FunctionWorker([Calculator()])
    task = plan(
        subtask("a", tool_name="calculator", tool_args={"expression": "15 * 24"}),
        subtask("b", "a", tool_name="calculator", tool_args={"expression": "{a} / 2"}),
    )
    assert results(await executor_of(worker).execute(task)) == {"a": 360, "b": 180}
    assert worker.messages == []


async def test_a_subtask_sees_the_results_it_builds_on() -> None:
    worker = FunctionWorker(think=lambda message: f"<{message.splitlines()[0]}>")
    await executor_of(worker).execute(plan(subtask("a"), subtask("b"), subtask("c", "a")))
    message = next(each for each in worker.messages if each.startswith("Do c"))
    assert "[a] Do a\n<Do a>" in message
    assert "Do b" not in message


async def test_incomplete_arguments_go_to_an_agent_with_the_tool_alone() -> None:
    worker = FunctionWorker([Calculator()], think=lambda message: "4")
    await executor_of(worker).execute(plan(subtask("a", tool_name="calculator", description="Add 2 and 2")))
    assert worker.loops == [("calculator",)]


async def test_a_subtask_without_a_tool_only_thinks() -> None:
    worker = FunctionWorker([Calculator()])
    await executor_of(worker).execute(plan(subtask("a")))
    assert worker.loops == [()]


async def test_a_role_gets_its_subtask() -> None:
    worker = FunctionWorker(roles={"poet": lambda message: "A poem."})
    task = await executor_of(worker).execute(plan(subtask("a", role="poet"), subtask("b", capability="poet")))
    assert results(task) == {"a": "A poem.", "b": "A poem."}


async def test_independent_subtasks_run_at_the_same_time() -> None:
    gate = Gate()
    executor = executor_of(FunctionWorker(think=gate), max_parallel=3)
    execution = asyncio.create_task(executor.execute(plan(*(subtask(str(n)) for n in range(5)))))
    await until(lambda: len(gate.waiting) == 3)
    assert executor.task is not None
    assert list(statuses(executor.task).values()) == ["executing"] * 3 + ["pending"] * 2
    gate.open.set()
    assert has_ended(await execution)
    assert gate.most == 3


async def test_a_subtask_starts_before_unrelated_ones_end() -> None:
    gate, started = asyncio.Event(), []

    async def think(message: str) -> str:
        started.append(message.splitlines()[0])
        if message.startswith("Do slow"):
            await gate.wait()
        return "x"

    executor = executor_of(FunctionWorker(think=think))
    execution = asyncio.create_task(executor.execute(plan(subtask("slow"), subtask("a"), subtask("b", "a"))))
    await until(lambda: "Do b" in started)
    assert started == ["Do slow", "Do a", "Do b"]
    gate.set()
    assert has_ended(await execution)


async def test_a_failed_attempt_is_repeated_with_its_problem() -> None:
    answers = iter(["", "Error: no", "fine"])
    worker = FunctionWorker(think=lambda message: next(answers))
    executor = executor_of(worker)
    assert results(await executor.execute(plan(subtask("a")))) == {"a": "fine"}
    assert "The last attempt was not accepted: the result is an error: Error: no" in worker.messages[2]
    assert executor.measured["a"].attempts == 3


async def test_a_failure_that_may_pass_is_followed_by_a_pause() -> None:
    answers = iter([Unavailable("down"), Unavailable("down"), None])
    pauses: list[float] = []

    def think(message: str) -> str:
        if (error := next(answers)) is not None:
            raise error
        return "up"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    executor = PlanExecutor(FunctionWorker(think=think), sleep=sleep)
    assert results(await executor.execute(plan(subtask("a", critical=True)))) == {"a": "up"}
    assert [round(pause, 1) for pause in pauses] == [0.5, 1.0]


async def test_a_tool_that_may_have_acted_is_not_called_again() -> None:
    calls = []

    @tool
    def pay() -> str:
        """Pays."""
        calls.append("pay")
        raise RuntimeError("connection lost")

    executor = executor_of(FunctionWorker([pay]), *[reply(subtask("b"))])
    task = await executor.execute(plan(subtask("a", tool_name="pay")))
    assert calls == ["pay"]
    assert statuses(task) == {"b": "completed"}


async def test_an_error_that_a_tool_returns_is_tried_three_times() -> None:
    calls = []

    @tool
    def book() -> ToolResult:
        """Books."""
        calls.append("book")
        return ToolResult.error("booked out")

    executor = executor_of(FunctionWorker([book]))
    with pytest.raises(PlanFailed):
        await executor.execute(plan(subtask("a", tool_name="book")))
    assert len(calls) == 3


async def test_a_tool_without_a_result_is_done() -> None:
    @tool
    def save() -> None:
        """Saves."""

    assert results(await executor_of(FunctionWorker([save])).execute(plan(subtask("a", tool_name="save")))) == {
        "a": "done"
    }


async def test_dependants_of_a_failed_subtask_are_skipped() -> None:
    events: list[PlanEvent] = []
    executor = executor_of(FunctionWorker(think=failing("a")), on_event=events.append)
    task = await executor.execute(
        plan(subtask("a"), subtask("b", "a"), subtask("c"), subtask("d", "b", partial_input=True))
    )
    assert statuses(task) == {"a": "failed", "b": "skipped", "c": "completed", "d": "completed"}
    assert [event.subtask.id for event in events if event.kind == "subtask_skipped" and event.subtask] == ["b"]


async def test_partial_input_is_told_what_is_missing() -> None:
    worker = FunctionWorker(think=failing("a"))
    await executor_of(worker).execute(plan(subtask("a"), subtask("b", "a", partial_input=True)))
    assert "(there is no result: it failed)" in worker.messages[-1]


async def test_three_failures_ask_for_smaller_subtasks() -> None:
    planner, model = planner_of(reply(subtask("b")))
    executor = PlanExecutor(FunctionWorker(think=failing("a")), planner=planner, sleep=no_sleep)
    await executor.execute(plan(subtask("a")))
    assert '"split": ["a"]' in model.requests[0].messages[-1].content


async def test_two_failed_subtasks_in_a_row_replan() -> None:
    executor = executor_of(FunctionWorker(think=failing("a", "b")), reply(subtask("c")), max_attempts=1)
    task = await executor.execute(plan(subtask("a"), subtask("b")))
    assert statuses(task) == {"c": "completed"}


async def test_low_confidence_replans_before_the_subtask() -> None:
    worker = FunctionWorker()
    executor = executor_of(worker, reply(subtask("b")))
    await executor.execute(plan(subtask("a", confidence=0.1)))
    assert [message.splitlines()[0] for message in worker.messages] == ["Do b"]


async def test_low_confidence_alone_never_fails_a_plan() -> None:
    unsure = reply(subtask("b", confidence=0.1))
    executor = executor_of(FunctionWorker(), *[unsure.replace("b", name) for name in "bcd"])
    task = await executor.execute(plan(subtask("a", confidence=0.1)))
    assert has_ended(task)
    assert executor.replans == 3


async def test_a_check_by_the_caller_may_refuse_a_result() -> None:
    async def check(subtask: Any, result: Any) -> CheckedResult:
        return CheckedResult("" if result == "good" else "not good")

    answers = iter(["bad", "good"])
    executor = executor_of(FunctionWorker(think=lambda message: next(answers)), check=check)
    assert results(await executor.execute(plan(subtask("a")))) == {"a": "good"}


async def test_an_unsure_result_replans_what_is_left() -> None:
    async def check(subtask: Any, result: Any) -> CheckedResult:
        return CheckedResult(confidence=0.2 if subtask.id == "a" else 0.9)

    worker = FunctionWorker()
    executor = executor_of(worker, reply(subtask("c", "a")), check=check)
    task = await executor.execute(plan(subtask("a"), subtask("b", "a")))
    assert (statuses(task), executor.replans) == ({"a": "completed", "c": "completed"}, 1)


async def test_an_unsure_last_result_is_kept() -> None:
    async def check(subtask: Any, result: Any) -> CheckedResult:
        return CheckedResult(confidence=0.1)

    executor = executor_of(FunctionWorker(), reply(subtask("b")), check=check)
    assert statuses(await executor.execute(plan(subtask("a")))) == {"a": "completed"}


async def test_after_three_replans_the_plan_fails_with_a_suggestion() -> None:
    worker = FunctionWorker(think=failing("b", "c", "d", "e"))
    executor = executor_of(worker, *(reply(subtask(name, "a", critical=True)) for name in "cde"))
    with pytest.raises(PlanFailed) as raised:
        await executor.execute(plan(subtask("a"), subtask("b", "a", critical=True)))
    assert [list(statuses(each)) for each in raised.value.plans] == [["a", "b"], ["a", "c"], ["a", "d"], ["a", "e"]]
    assert raised.value.suggestion == "Do a."
    assert "after 3 replans: the critical subtask e failed" in str(raised.value)
    assert sum(message.startswith("Do a") for message in worker.messages) == 1


async def test_a_planner_that_fails_ends_the_plan() -> None:
    executor = executor_of(FunctionWorker(think=failing("a")), "no", "plan")
    with pytest.raises(PlanFailed, match="there is no new plan"):
        await executor.execute(plan(subtask("a", critical=True)))


async def test_a_pause_starts_nothing_until_it_is_resumed() -> None:
    gate, events = Gate(), []
    executor = executor_of(FunctionWorker(think=gate), on_event=lambda event: events.append(event.kind.value))
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b", "a"))))
    await until(lambda: len(gate.waiting) == 1)
    executor.pause()
    gate.open.set()
    await until(lambda: executor.task is not None and statuses(executor.task)["a"] == "completed")
    assert statuses(executor.task or plan()) == {"a": "completed", "b": "pending"}
    executor.resume()
    await execution
    assert [kind for kind in events if kind in ("paused", "resumed")] == ["paused", "resumed"]


async def test_a_paused_plan_can_be_edited() -> None:
    gate, events = Gate(), list[PlanEvent]()
    worker = FunctionWorker(think=gate)
    executor = executor_of(worker, on_event=events.append)
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b", "a"), subtask("c", "b"))))
    await until(lambda: len(gate.waiting) == 1)
    executor.pause()
    executor.edit(plan(subtask("a"), subtask("x", "a"), subtask("c", "x")))
    gate.open.set()
    await until(lambda: executor.task is not None and statuses(executor.task)["a"] == "completed")
    assert executor.task is not None
    assert statuses(executor.task) == {"a": "completed", "x": "pending", "c": "pending"}
    executor.resume()
    assert results(await execution) == {"a": "Do a", "x": "Do x", "c": "Do c"}
    assert [message.splitlines()[0] for message in worker.messages] == ["Do a", "Do x", "Do c"]
    assert [event.kind for event in events].count(PlanEventKind.EDITED) == 1
    assert (executor.plans, executor.replans) == ([], 0)


@pytest.mark.parametrize(
    ("edited", "message"),
    [
        (("c",), "the edit changes steps that have begun: a"),
        (("a changed", "b"), "the edit changes steps that have begun: a"),
        (("a", "b", "b needs bad"), "depends on 'bad', which failed"),
    ],
)
async def test_an_edit_never_touches_what_has_begun(edited: tuple[str, ...], message: str) -> None:
    gate = Gate()

    async def think(text: str) -> str:
        if text.startswith("Do bad\n"):
            raise InvalidArgument("no")
        return await gate(text)

    steps = {
        "a": subtask("a"),
        "a changed": subtask("a", description="Something else"),
        "b": subtask("b", "a"),
        "b needs bad": subtask("d", "bad"),
        "c": subtask("c"),
    }
    executor = executor_of(FunctionWorker(think=think))
    given = plan(subtask("a"), subtask("bad"), subtask("b", "a"))
    execution = asyncio.create_task(executor.execute(given))
    await until(lambda: executor.task is not None and statuses(executor.task)["bad"] == "failed")
    with pytest.raises(FailedPrecondition, match=message):
        executor.edit(plan(*(steps[name] for name in edited), *([subtask("bad")] if "a" in edited else [])))
    gate.open.set()
    assert statuses(await execution) == {"a": "completed", "bad": "failed", "b": "completed"}
    with pytest.raises(FailedPrecondition, match="no plan is being executed"):
        executor.edit(given)


async def test_an_edit_cannot_begin_what_was_skipped() -> None:
    gate = Gate()

    async def think(text: str) -> str:
        if text.startswith("Do bad\n"):
            raise InvalidArgument("no")
        return await gate(text)

    executor = executor_of(FunctionWorker(think=think))
    execution = asyncio.create_task(executor.execute(plan(subtask("bad"), subtask("after", "bad"), subtask("slow"))))
    await until(lambda: executor.task is not None and statuses(executor.task)["after"] == "skipped")
    assert executor.task is not None
    with pytest.raises(FailedPrecondition, match="'after' depends on 'bad', which failed"):
        executor.edit(executor.task)
    gate.open.set()
    assert statuses(await execution) == {"bad": "failed", "after": "skipped", "slow": "completed"}


async def test_cancel_stops_what_is_executing() -> None:
    gate = Gate()
    executor = executor_of(FunctionWorker(think=gate))
    execution = asyncio.create_task(executor.execute(plan(subtask("a"))))
    await until(lambda: len(gate.waiting) == 1)
    executor.cancel()
    with pytest.raises(OperationCancelled):
        await execution
    assert gate.cancelled == ["Do a"]
    assert executor.task is not None
    assert statuses(executor.task) == {"a": "pending"}


async def test_a_cancelled_plan_leaves_no_subtask_behind() -> None:
    gate = Gate()
    executor = executor_of(FunctionWorker(think=gate))
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b"))))
    await until(lambda: len(gate.waiting) == 2)
    execution.cancel()
    with pytest.raises(asyncio.CancelledError):
        await execution
    assert sorted(gate.cancelled) == ["Do a", "Do b"]


async def test_one_executor_executes_one_plan_at_a_time() -> None:
    gate = Gate()
    executor = executor_of(FunctionWorker(think=gate))
    execution = asyncio.create_task(executor.execute(plan(subtask("a"))))
    await until(lambda: len(gate.waiting) == 1)
    with pytest.raises(FailedPrecondition):
        await executor.execute(plan(subtask("b")))
    gate.open.set()
    await execution


async def test_an_exhausted_budget_ends_the_plan() -> None:
    def think(message: str) -> str:
        raise BudgetExhausted("nothing left")

    executor = executor_of(FunctionWorker(think=think), reply(subtask("b")))
    with pytest.raises(BudgetExhausted):
        await executor.execute(plan(subtask("a")))
    assert executor.task is not None
    assert statuses(executor.task) == {"a": "pending"}


async def test_what_completed_beside_a_fatal_error_is_kept() -> None:
    gate = asyncio.Event()

    async def think(message: str) -> str:
        await gate.wait()
        if message.startswith("Do a"):
            raise BudgetExhausted("nothing left")
        return "done"

    executor = executor_of(FunctionWorker(think=think))
    execution = asyncio.create_task(executor.execute(plan(subtask("a"), subtask("b"))))
    await until(lambda: executor.task is not None and statuses(executor.task)["b"] == "executing")
    gate.set()
    with pytest.raises(BudgetExhausted):
        await execution
    assert executor.task is not None
    assert statuses(executor.task) == {"a": "pending", "b": "completed"}


async def test_a_worker_that_cancels_itself_fails_its_subtask() -> None:
    def think(message: str) -> str:
        raise asyncio.CancelledError

    executor = executor_of(FunctionWorker(think=think))
    with pytest.raises(PlanFailed):
        await executor.execute(plan(subtask("a", critical=True)))
    assert results(executor.task or plan()) == {"a": "it was cancelled"}


async def test_a_pause_holds_up_a_replan_too() -> None:
    executor: PlanExecutor

    def think(message: str) -> str:
        if message.startswith("Do a"):
            executor.pause()
            raise InvalidArgument("no")
        return "x"

    worker = FunctionWorker(think=think)
    executor = executor_of(worker, reply(subtask("b")))
    execution = asyncio.create_task(executor.execute(plan(subtask("a", critical=True))))
    await until(lambda: executor.task is not None and statuses(executor.task) == {"a": "failed"})
    assert executor.replans == 0
    executor.resume()
    assert statuses(await execution) == {"b": "completed"}


async def test_a_slow_attempt_fails() -> None:
    executor = executor_of(FunctionWorker(think=Gate()), timeout=0.01, max_attempts=1)
    with pytest.raises(PlanFailed):
        await executor.execute(plan(subtask("a")))
    assert executor.task is not None
    assert results(executor.task) == {"a": "no result within 0.01 s"}


async def test_estimates_stand_beside_what_a_subtask_took() -> None:
    now = iter(range(100))
    executor = PlanExecutor(FunctionWorker(), clock=lambda: float(next(now)), sleep=no_sleep)
    await executor.execute(plan(subtask("a", estimated_seconds=30, estimated_cost_micro_usd=50)))
    measured = executor.measured["a"]
    assert (measured.seconds, measured.estimated_seconds) == (1.0, 30.0)
    assert (measured.cost_micro_usd, measured.estimated_cost_micro_usd) == (7, 50)


async def test_what_has_completed_is_not_executed_again() -> None:
    task = plan(subtask("a"), subtask("b", "a"))
    task = task.update_subtask(task.subtasks[0].with_result("kept"))
    worker = FunctionWorker()
    assert results(await executor_of(worker).execute(task)) == {"a": "kept", "b": "thought"}
    assert len(worker.messages) == 1


async def test_a_plan_given_with_a_failed_subtask_ends() -> None:
    task = plan(subtask("a"), subtask("b", "a"), subtask("c"))
    task = task.update_subtask(task.subtasks[0].with_status(SubTaskStatus.FAILED))
    assert statuses(await executor_of(FunctionWorker()).execute(task))["b"] == "skipped"


async def test_a_task_that_is_no_plan_is_refused() -> None:
    with pytest.raises(PlanCycle):
        await executor_of(FunctionWorker()).execute(plan(subtask("a", "a")))


async def test_a_handler_that_raises_does_not_affect_the_plan() -> None:
    def on_event(event: PlanEvent) -> None:
        raise RuntimeError("no")

    assert has_ended(await executor_of(FunctionWorker(), on_event=on_event).execute(plan(subtask("a"))))


async def test_a_policy_without_replans_fails_at_once() -> None:
    planner, model = planner_of(reply(subtask("b")))
    worker = FunctionWorker(think=failing("a"))
    executor = PlanExecutor(worker, planner=planner, policy=ReplanPolicy(max_replans=0), sleep=no_sleep)
    with pytest.raises(PlanFailed):
        await executor.execute(plan(subtask("a")))
    assert model.remaining == 1


@settings(max_examples=settings().max_examples // 2)
@given(plans(max_size=8), st.sets(st.integers(0, 8)))
def test_any_plan_ends_and_no_subtask_completes_twice(task: Task, bad: set[int]) -> None:
    completed: list[str] = []

    def on_event(event: PlanEvent) -> None:
        if event.kind == "subtask_completed" and event.subtask is not None:
            completed.append(event.subtask.id)

    worker = FunctionWorker(think=failing(*(f"s{number}" for number in bad)))

    async def execute() -> None:
        async with asyncio.timeout(60):
            try:
                assert has_ended(await executor_of(worker, on_event=on_event).execute(task))
            except PlanFailed:
                assert not completed

    asyncio.run(execute())
    assert len(completed) == len(set(completed))


NUMBERS = {"type": "array", "items": {"type": "integer"}}


async def test_subtask_that_thinks_is_asked_for_its_schema() -> None:
    worker = FunctionWorker(think=lambda message: "[1, 2]")
    task = await executor_of(worker).execute(plan(subtask("a", output_schema=NUMBERS), subtask("b")))
    assert worker.outputs == [NUMBERS, None]
    assert results(task)["a"] == "[1, 2]"


async def test_result_of_a_role_is_held_to_the_schema() -> None:
    replies = iter(['["one"]', "[1]"])
    worker = FunctionWorker(roles={"clerk": lambda message: next(replies)})
    task = await executor_of(worker).execute(plan(subtask("a", role="clerk", output_schema=NUMBERS)))
    assert results(task) == {"a": "[1]"}
    first, second = worker.messages
    assert '"type": "array"' in first
    assert "0: 'one' is not of type 'integer'" in second
