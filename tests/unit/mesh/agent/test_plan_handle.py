"""Plans that `Agent.plan` starts: questions, approvals, pauses, edits, budgets, journals."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from archon.errors import (
    ApprovalRejected,
    BudgetExhausted,
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    OperationCancelled,
    PermissionDenied,
    QuestionTimedOut,
)
from archon_mesh.agent import Agent
from archon_mesh.agent.plan_handle import PlanHandle
from archon_mesh.core.people import Condition, InterceptionRule, TimeoutPolicy, Trigger
from archon_mesh.llm import ScriptedModel
from archon_mesh.people import HumanApprovalTool, answered_by, ask_person
from archon_mesh.planning import PlanEvent, PlanFailed, PlanQuestion, SubTask, Task, TaskMode
from archon_mesh.tools import Tool, tool
from tests.fixtures.plan_replies import reply
from tests.fixtures.virtual_time import in_virtual_time, pass_time
from tests.fixtures.waiting import run_ready_tasks, until

PLAN = InterceptionRule(Trigger.PLAN, name="plans", timeout=60.0)


@tool(idempotent=True)
async def look(what: str) -> str:
    """Looks something up."""
    return f"<{what}>"


def step(id: str, *dependencies: str, what: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "description": f"look for {id}",
        "tool_name": "look",
        "tool_args": {"what": what or id},
        "dependencies": dependencies,
        **fields,
    }


def clerk(*replies: Any, tools: list[Any] | None = None, **fields: Any) -> Agent[str]:
    return Agent("clerk", model=ScriptedModel([*replies]), tools=[look] if tools is None else tools, **fields)


async def asked(plan: PlanHandle[Any]) -> PlanQuestion:
    """Waits for the plan's only question."""
    await until(lambda: bool(plan.questions()) or plan.done)
    (question,) = plan.questions()
    return question


async def test_a_plan_waits_for_its_approval() -> None:
    async with clerk(reply(step("a"), step("b", "a"))) as agent, agent.plan("Do it", rules=[PLAN]) as plan:
        question = await asked(plan)
        assert question.plan is not None and [each.id for each in question.plan.subtasks] == ["a", "b"]
        assert (question.is_approval, question.rule, question.step_id) == (True, "plans", "")
        assert "a [look]: look for a" in question.text
        plan.respond(question, decision="approve")
        assert await plan == "<b>"
        assert plan.questions() == []


async def test_a_rejected_plan_ends_with_an_error() -> None:
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[PLAN]) as plan:
        plan.respond((await asked(plan)).id, "no", identity="ann")
        with pytest.raises(ApprovalRejected, match="the plan was rejected by ann"):
            await plan.result()


async def test_another_plan_may_be_given_in_place_of_one() -> None:
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[PLAN]) as plan:
        question = await asked(plan)
        with pytest.raises(InvalidArgument, match="lok"):
            plan.respond(question, reply(step("b", tool_name="lok")), decision="modify")
        plan.respond(question, reply(step("b", what="better")), decision="modify")
        assert await plan == "<better>"


async def test_a_result_waits_for_its_approval() -> None:
    rule = InterceptionRule(Trigger.CHECKPOINT)
    made = reply(step("a", checkpoint=True), step("b", "a", tool_args={"what": "{a}"}))
    async with clerk(made) as agent, agent.plan("Do it", rules=[rule]) as plan:
        question = await asked(plan)
        assert (question.step_id, question.result) == ("a", "<a>")
        plan.respond(question, "c", decision="modify")
        assert await plan == "<c>"


async def test_a_failure_waits_for_a_decision_about_another_attempt() -> None:
    tries = []

    @tool(idempotent=True)
    def lucky() -> str:
        """Succeeds the second time."""
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("bad luck")
        return "good luck"

    rule = InterceptionRule(Trigger.ERROR, Condition(severity_at_least=1))
    made = reply({"id": "a", "description": "try", "tool_name": "lucky"})
    async with clerk(made, tools=[lucky]) as agent, agent.plan("Do it", rules=[rule]) as plan:
        question = await asked(plan)
        assert "bad luck" in question.failure
        plan.respond(question, "yes")
        assert await plan == "good luck"


@in_virtual_time
@pytest.mark.parametrize(
    ("policy", "default", "outcome"),
    [
        (TimeoutPolicy.ABORT, "", QuestionTimedOut),
        (TimeoutPolicy.DEFAULT, "approve", None),
        (TimeoutPolicy.DEFAULT, "reject", ApprovalRejected),
    ],
)
async def test_an_approval_ends_with_its_time(policy: TimeoutPolicy, default: str, outcome: Any) -> None:
    rule = InterceptionRule(Trigger.PLAN, timeout=60.0, on_timeout=policy, default=default)
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[rule]) as plan:
        assert (await asked(plan)).seconds_left == pytest.approx(60.0, abs=1.0)
        if outcome is None:
            assert await plan == "<a>"
            return
        with pytest.raises(outcome):
            await plan


async def test_only_approvers_may_answer() -> None:
    rule = InterceptionRule(Trigger.PLAN, approvers=("ann",))
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[rule]) as plan:
        question = await asked(plan)
        assert question.approvers == ("ann",)
        with pytest.raises(PermissionDenied):
            plan.respond(question, "yes", identity="bob")
        plan.respond(question, "yes", identity="ann")
        assert await plan == "<a>"


async def test_the_first_answer_counts_and_may_come_again() -> None:
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Waits."""
        await gate.wait()
        return "done"

    made = reply({"id": "a", "description": "wait", "tool_name": "wait"})
    async with clerk(made, tools=[wait]) as agent, agent.plan("Do it", rules=[PLAN]) as plan:
        question = await asked(plan)
        plan.respond(question, "yes")
        plan.respond(question, "yes")
        with pytest.raises(FailedPrecondition, match="not open"):
            plan.respond(question, "no")
        with pytest.raises(FailedPrecondition, match="not open"):
            plan.respond("nothing", "no")
        gate.set()
        assert await plan == "done"


def booking(*, schema: Any = None) -> Tool:
    @tool(idempotent=True)
    async def book() -> str:
        """Asks the person for a city."""
        return f"a room in {(await ask_person('Where to?')).text}"

    return book


BOOK = reply({"id": "a", "description": "book", "tool_name": "book"})


async def test_a_tool_asks_through_the_plan() -> None:
    events: list[PlanEvent] = []
    agent = clerk(BOOK, tools=[booking()])
    async with agent, agent.plan("Do it", on_event=events.append) as plan:
        question = await asked(plan)
        assert (question.text, question.is_approval, question.step_id) == ("Where to?", False, "a")
        with pytest.raises(InvalidArgument, match="answer, not a decision"):
            plan.respond(question, decision="approve")
        plan.respond(question, "Rome")
        assert await plan == "a room in Rome"
    kinds = [(each.kind, each.message, each.question) for each in events if each.question]
    assert kinds == [("asked", "Where to?", question.id), ("answered", "answered", question.id)]


async def test_a_model_asks_by_a_tool_within_a_step() -> None:
    from archon_mesh.core.messages import ToolCall

    made = reply({"id": "a", "description": "Clean up"})
    call = ToolCall("1", "human_approval", '{"action": "Delete 3 tickets."}')
    made = reply({"id": "a", "description": "Clean up", "tool_name": "human_approval"})
    async with clerk(made, call, "Deleted.", tools=[HumanApprovalTool()]) as agent, agent.plan("Do it") as plan:
        question = await asked(plan)
        assert question.is_approval and question.text == "Delete 3 tickets."
        assert question.subject == {"action": "Delete 3 tickets.", "reason": ""}
        plan.respond(question, "yes")
        assert await plan == "Deleted."


async def test_a_step_that_waits_for_a_person_takes_no_place_of_others() -> None:
    made = reply({"id": "a", "description": "book", "tool_name": "book"}, step("b"))
    agent = clerk(made, "both", tools=[booking(), look])
    async with agent, agent.plan("Do it", max_parallel=1) as plan:
        question = await asked(plan)
        await until(lambda: plan.task is not None and "b" in plan.task.completed_ids)
        plan.respond(question, "Rome")
        assert await plan == "both"


@in_virtual_time
async def test_the_time_of_a_step_stands_still_while_a_person_is_asked() -> None:
    async with clerk(BOOK, tools=[booking()]) as agent, agent.plan("Do it", timeout=10.0, max_seconds=20.0) as plan:
        question = await asked(plan)
        await pass_time(3_600)
        plan.respond(question, "Rome")
        assert await plan == "a room in Rome"


@in_virtual_time
async def test_a_plan_waits_for_a_person_no_longer_than_it_may() -> None:
    async with clerk(BOOK, tools=[booking()]) as agent, agent.plan("Do it", pause_timeout=30.0) as plan:
        with pytest.raises(DeadlineExceeded, match="waited for an answer"):
            await plan


async def test_the_planner_asks_through_the_plan() -> None:
    async with clerk('{"question": "Where to?"}', reply(step("a"))) as agent, agent.plan("Do it") as plan:
        question = await asked(plan)
        assert (question.text, question.step_id) == ("Where to?", "")
        plan.respond(question, "To Rome.")
        assert await plan == "<a>"
        assert "To Rome." in str(agent.model.requests[-1])  # type: ignore[attr-defined]


async def test_a_person_of_the_caller_is_asked_by_rules() -> None:
    seen = []

    async def person(question: Any) -> str:
        seen.append((question.text.splitlines()[0], question.subject))
        return "approve"

    async with clerk(reply(step("a"))) as agent:
        with answered_by(person):
            assert await agent.run_task("Do it", rules=[PLAN], mode=TaskMode.PLANNED) == "<a>"
    assert seen == [("Approve the plan: Do it", {"step": "", "rule": "plans"})]


async def test_rules_need_a_person() -> None:
    async with clerk(reply(step("a"))) as agent:
        with pytest.raises(FailedPrecondition, match=r"Agent\.plan"):
            await agent.run_task("Plan it", rules=[PLAN])
        with pytest.raises(InvalidArgument, match="trigger"):
            await agent.plan("Do it", rules=[InterceptionRule(Trigger.TOOL)])


async def test_a_paused_plan_makes_no_plan_until_it_is_resumed() -> None:
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it") as plan:
        plan.pause()
        await run_ready_tasks()
        assert plan.task is None
        plan.resume()
        assert await plan == "<a>"


async def test_a_step_that_has_not_begun_is_edited() -> None:
    gate = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Waits."""
        await gate.wait()
        return "done"

    first = {"id": "a", "description": "wait", "tool_name": "wait"}
    async with clerk(reply(first, step("b", "a")), tools=[wait, look]) as agent, agent.plan("Do it") as plan:
        await until(lambda: plan.task is not None and plan.task.subtasks[0].status == "executing")
        plan.edit(reply(first, step("c", "a")))
        gate.set()
        assert await plan == "<c>"
        with pytest.raises(FailedPrecondition):
            plan.edit(Task("x", "Do it", "Do it", (SubTask("d", "more"),)))


async def test_a_cancelled_plan_stops_its_steps() -> None:
    stopped = asyncio.Event()

    @tool(idempotent=True)
    async def wait() -> str:
        """Waits."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return ""

    async with clerk(reply({"id": "a", "description": "wait", "tool_name": "wait"}), tools=[wait]) as agent:
        plan = agent.plan("Do it")
        await until(lambda: plan.task is not None and plan.task.subtasks[0].status == "executing")
        plan.cancel()
        with pytest.raises(OperationCancelled):
            await plan
        assert stopped.is_set()


async def test_an_agent_that_is_closed_stops_its_plans() -> None:
    agent = clerk(BOOK, tools=[booking()])
    plan = agent.plan("Do it")
    await asked(plan)
    await agent.close()
    assert plan.done


async def test_a_caller_that_waits_no_more_does_not_stop_the_plan() -> None:
    async with clerk(BOOK, tools=[booking()]) as agent, agent.plan("Do it") as plan:
        question = await asked(plan)
        with pytest.raises(TimeoutError):
            await plan.result(timeout=0.01)
        plan.respond(question, "Rome")
        assert await plan == "a room in Rome"


# Budgets ----------------------------------------------------------------------------------------------------------------


THINK = [{"id": "a", "description": "think of a"}, {"id": "b", "description": "think of b", "dependencies": ["a"]}]


async def test_model_calls_are_made_as_far_as_the_budget_goes() -> None:
    agent = clerk(reply(*THINK), "A", "B")
    async with agent, agent.plan("Do it", max_model_calls=3) as plan:
        assert await plan == "B"
        assert plan.spent.calls == 3
    agent = clerk(reply(*THINK), "A", "B")
    async with agent, agent.plan("Do it", max_model_calls=2) as plan:
        with pytest.raises(BudgetExhausted, match="model"):
            await plan
        assert len(agent.model.requests) == 2  # type: ignore[attr-defined]


async def test_a_call_that_the_tokens_do_not_cover_is_not_made() -> None:
    agent = clerk(reply(*THINK), "A", "B")
    async with agent, agent.plan("Do it", max_tokens=10) as plan:
        with pytest.raises(BudgetExhausted, match="tokens"):
            await plan
        assert len(agent.model.requests) == 0  # type: ignore[attr-defined]


async def test_the_answer_counts_against_the_budget() -> None:
    two = [{"id": id_, "description": f"think of {id_}"} for id_ in "ab"]
    agent = clerk(reply(*two), "A", "B", "A and B")
    async with agent, agent.plan("Do it", max_model_calls=3) as plan:
        with pytest.raises(BudgetExhausted):
            await plan
        assert len(agent.model.requests) == 3  # type: ignore[attr-defined]


async def test_a_refused_answer_is_not_written_again_beyond_the_budget() -> None:
    agent = clerk(reply(*THINK), "A", "B", "C", goal_check=lambda state, answer: False)
    async with agent, agent.plan("Do it", max_model_calls=3) as plan:
        with pytest.raises(BudgetExhausted):
            await plan


@in_virtual_time
async def test_a_plan_ends_with_its_time() -> None:
    @tool(idempotent=True)
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "late"

    made = reply({"id": "a", "description": "wait", "tool_name": "wait"})
    async with clerk(made, tools=[wait], tool_timeout=2_000.0) as agent, agent.plan("Do it", max_seconds=30.0) as plan:
        with pytest.raises(DeadlineExceeded, match="30 s") as raised:
            await plan
        assert raised.value.reason == "RUN_TIMEOUT"


@pytest.mark.parametrize("limit", [{"max_tokens": 0}, {"max_cost": 0.0}, {"max_seconds": 0}, {"max_model_calls": -1}])
async def test_a_budget_out_of_range_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(limit))):
        clerk().plan("Do it", **limit)


# Journals ---------------------------------------------------------------------------------------------------------------


async def died(plan: PlanHandle[Any]) -> None:
    """Ends a plan as a stop of its process does."""
    await plan.close()


async def test_an_open_approval_survives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[PLAN], journal=path) as plan:
        before = await asked(plan)
    async with clerk() as agent, agent.plan("Do it", rules=[PLAN], journal=path) as plan:
        question = await asked(plan)
        assert (question.id, question.text) == (before.id, before.text)
        plan.respond(question, "yes")
        assert await plan == "<a>"
    async with clerk() as agent, agent.plan("Do it", rules=[PLAN], journal=path) as plan:
        assert await plan == "<a>"


async def test_a_question_that_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    path, gate = tmp_path / "plan", asyncio.Event()

    def booking(wait: Callable[[], Awaitable[Any]]) -> Any:
        @tool(idempotent=True)
        async def book() -> str:
            """Asks for a city and a street."""
            city = (await ask_person("Where to?")).text
            await wait()
            return f"{city}, {(await ask_person('Which street?')).text}"

        return book

    async with clerk(BOOK, tools=[booking(gate.wait)]) as agent, agent.plan("Do it", journal=path) as plan:
        plan.respond(await asked(plan), "Rome")

    async def at_once() -> None: ...

    async with clerk(tools=[booking(at_once)]) as agent, agent.plan("Do it", journal=path) as plan:
        question = await asked(plan)
        assert question.text == "Which street?"
        plan.respond(question, "Via Appia")
        assert await plan == "Rome, Via Appia"


async def test_a_question_of_a_tool_that_may_act_is_asked_again_after_a_stop(tmp_path: Path) -> None:
    """It waited, so that it had not acted yet."""
    path = tmp_path / "plan"
    call = {"id": "a", "description": "ask", "tool_name": "human_approval", "tool_args": {"action": "Delete it."}}
    async with clerk(reply(call), tools=[HumanApprovalTool()]) as agent, agent.plan("Do it", journal=path) as plan:
        await asked(plan)
    async with clerk(tools=[HumanApprovalTool()]) as agent, agent.plan("Do it", journal=path) as plan:
        plan.respond(await asked(plan), "yes")
        assert "approved" in await plan


async def test_spending_and_time_count_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    rule = InterceptionRule(Trigger.CHECKPOINT, Condition(step="a"))
    options: Any = {"max_model_calls": 2, "journal": path, "rules": [rule]}
    async with clerk(reply(*THINK), "A") as agent, agent.plan("Do it", **options) as plan:
        await asked(plan)
        assert plan.spent.calls == 2
    async with clerk("B") as agent, agent.plan("Do it", **options) as plan:
        plan.respond(await asked(plan), "yes")
        with pytest.raises(BudgetExhausted):
            await plan


async def test_a_paused_plan_is_paused_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    async with clerk(reply(step("a"))) as agent, agent.plan("Do it", rules=[PLAN], journal=path) as plan:
        question = await asked(plan)
        plan.pause()
        plan.respond(question, "yes")
    async with clerk() as agent, agent.plan("Do it", rules=[PLAN], journal=path) as plan:
        await until(lambda: plan.task is not None)
        assert plan.task is not None and plan.task.subtasks[0].status == "pending"
        plan.resume()
        assert await plan == "<a>"


async def test_a_failed_plan_says_so_by_its_handle() -> None:
    bad = reply({"id": "a", "description": "call", "tool_name": "broken", "critical": True})

    @tool(idempotent=True)
    def broken() -> str:
        """Fails."""
        raise InvalidArgument("booked out")

    async with clerk(*[bad] * 4, tools=[broken]) as agent, agent.plan("Do it") as plan:
        with pytest.raises(PlanFailed, match="the plan failed"):
            await plan
