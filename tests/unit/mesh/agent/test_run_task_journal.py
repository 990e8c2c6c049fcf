"""Tasks of an agent that another process goes on with: `Agent.run_task(..., journal=...)`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent, BudgetMiddleware
from archon_mesh.engine.plan import Task
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.planning import JournalMismatch, MalformedPlan, PlanFailed, PlanNotApproved, TaskMode
from archon_mesh.tools import tool
from archon_mesh.workflows import WorkflowPlanner, WorkflowTemplate
from tests.fixtures.waiting import until
from tests.unit.mesh.agent.test_run_task import outcome_of
from tests.unit.mesh.planning.journals import MemoryJournal
from tests.unit.mesh.workflows.files import load

TRIP = "Book a flight to Rome and then book a hotel there"


def reply(*subtasks: dict[str, Any], goal: str = "Book a trip to Rome") -> str:
    return json.dumps({"goal": goal, "subtasks": subtasks})


def step(id: str, tool_name: str, *dependencies: str, **tool_args: Any) -> dict[str, Any]:
    return {
        "id": id,
        "description": f"Do {id}",
        "tool_name": tool_name,
        "tool_args": tool_args,
        "dependencies": dependencies,
        "critical": True,
    }


PLAN = reply(step("1", "book_flight", city="Rome"), step("2", "book_hotel", "1", name="Plaza"))


class Travel:
    """Tools that book. The hotel waits until its gate is open."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        if is_open:
            self.gate.set()
        travel = self

        @tool
        def book_flight(city: str) -> str:
            """Books a flight."""
            travel.calls.append(f"flight to {city}")
            return "AB12"

        @tool(idempotent=True)
        async def book_hotel(name: str) -> str:
            """Books a hotel."""
            travel.calls.append(name)
            await travel.gate.wait()
            return f"a room at the {name}"

        self.tools = [book_flight, book_hotel]

    def agent(self, *replies: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel(replies)
        return Agent("clerk", model=model, tools=self.tools, **options), model


async def killed(agent: Agent, travel: Travel, journal: MemoryJournal, **options: Any) -> MemoryJournal:
    """Returns the journal that a crash leaves while the hotel is being booked."""
    run = asyncio.create_task(agent.run_task(TRIP, journal=journal, **options))
    await until(lambda: "Plaza" in travel.calls)
    left = journal.after(len(journal.appends))
    run.cancel()
    await asyncio.wait([run])
    return left


async def test_a_trip_goes_on_in_another_process() -> None:
    travel = Travel(is_open=False)
    agent, _ = travel.agent(PLAN)
    left = await killed(agent, travel, MemoryJournal())
    after = Travel()
    again, model = after.agent()
    assert await again.run_task(TRIP, journal=left) == "a room at the Plaza"
    assert travel.calls == ["flight to Rome", "Plaza"]
    assert after.calls == ["Plaza"]
    assert model.requests == [], "the plan is not made again"
    outcome = outcome_of(again)
    assert (outcome.mode, outcome.replans) == (TaskMode.PLANNED, 0)
    assert set(outcome.measured) == {"1", "2"}


async def test_a_finished_task_is_answered_at_once() -> None:
    travel, journal = Travel(), MemoryJournal()
    agent, _ = travel.agent(PLAN)
    answer = await agent.run_task(TRIP, journal=journal)
    again, model = travel.agent()
    assert await again.run_task(TRIP, journal=journal) == answer == "a room at the Plaza"
    assert travel.calls == ["flight to Rome", "Plaza"]
    assert model.requests == []
    first, second = outcome_of(agent), outcome_of(again)
    assert (second.task, second.plans, second.replans, second.reason) == (
        first.task,
        first.plans,
        first.replans,
        first.reason,
    )
    assert [(message.role, message.content) for message in again.history] == [("user", TRIP), ("assistant", answer)]


@pytest.mark.parametrize(("lost", "answer", "calls"), [(1, "Both are booked.", 0), (2, "All is booked.", 1)])
async def test_a_crash_before_the_answer_repeats_only_the_answer(lost: int, answer: str, calls: int) -> None:
    """The last record is the answer; before it, the run has ended with the text that the model has written."""
    travel, journal = Travel(), MemoryJournal()
    two = reply(step("1", "book_flight", city="Rome"), step("2", "book_hotel", name="Plaza"))
    agent, _ = travel.agent(two, "Both are booked.")
    assert await agent.run_task(TRIP, journal=journal) == "Both are booked."
    again, model = travel.agent("All is booked.")
    assert await again.run_task(TRIP, journal=journal.after(len(journal.appends) - lost)) == answer
    assert sorted(travel.calls) == ["Plaza", "flight to Rome"]
    assert len(model.requests) == calls


async def test_a_journal_of_another_query_is_refused() -> None:
    travel, journal = Travel(), MemoryJournal()
    agent, _ = travel.agent(PLAN)
    await agent.run_task(TRIP, journal=journal)
    appends = list(journal.appends)
    with pytest.raises(JournalMismatch, match="of another query, 'Book a flight to Rome"):
        await agent.run_task("Book a flight to Paris and then a hotel", journal=journal)
    with pytest.raises(JournalMismatch, match="another initial context"):
        await agent.run_task(TRIP, journal=journal, initial_context={"city": "Paris"})
    assert journal.appends == appends
    assert not journal.is_open


async def test_a_query_that_is_answered_directly_keeps_its_answer() -> None:
    journal = MemoryJournal()
    agent, _ = Travel().agent("It is noon.")
    assert await agent.run_task("What time is it?", journal=journal) == "It is noon."
    again, model = Travel().agent()
    assert await again.run_task("What time is it?", journal=journal) == "It is noon."
    assert model.requests == []
    assert outcome_of(again).mode is TaskMode.DIRECT


async def test_the_first_decision_about_a_query_counts() -> None:
    """Another agent's tools, or another version, may decide otherwise: the task goes on as it began."""
    travel = Travel(is_open=False)
    agent, _ = travel.agent(PLAN)
    left = await killed(agent, travel, MemoryJournal(), mode=TaskMode.PLANNED)
    again, _ = Travel().agent()
    assert await again.run_task(TRIP, journal=left, mode=TaskMode.DIRECT) == "a room at the Plaza"


async def test_the_failure_of_a_plan_is_raised_again() -> None:
    @tool
    def book_hotel(name: str) -> str:
        """Books a hotel."""
        raise RuntimeError("booked out")

    journal = MemoryJournal()
    one = reply(step("1", "book_hotel", name="Plaza"))
    agent = Agent("clerk", model=ScriptedModel([one, "no", "no"]), tools=[book_hotel])
    with pytest.raises(PlanFailed) as first:
        await agent.run_task(TRIP, mode=TaskMode.PLANNED, journal=journal)
    with pytest.raises(PlanFailed) as again:
        await Agent("clerk", model=ScriptedModel([]), tools=[book_hotel]).run_task(
            TRIP, mode=TaskMode.PLANNED, journal=journal
        )
    assert again.value.plans == first.value.plans


# People --------------------------------------------------------------------------------------------------------------


class Person:
    """Approves and answers, and notes what was asked."""

    def __init__(self, decision: bool | Task = True) -> None:
        self.decision = decision
        self.asked: list[str] = []

    async def approve(self, task: Task) -> bool | Task:
        self.asked.append("approve " + " ".join(each.id for each in task.subtasks))
        return self.decision

    async def clarify(self, question: str) -> str:
        self.asked.append(question)
        return "To Rome."


QUESTION = '{"question": "Where to?"}'


class StuckModel(ScriptedModel):
    """A scripted model that does not answer after its replies."""

    @override
    async def generate(self, request: ModelRequest) -> ModelReply:
        if not self.remaining:
            self.requests.append(request)
            await asyncio.Event().wait()
        return await super().generate(request)


async def test_an_answer_is_not_asked_for_again_after_a_crash() -> None:
    """The process dies while the planner makes its plan of the answer."""
    journal, person = MemoryJournal(), Person()

    model = StuckModel([QUESTION])
    agent = Agent("clerk", model=model, tools=Travel().tools)
    run = asyncio.create_task(
        agent.run_task(TRIP, mode=TaskMode.PLANNED, journal=journal, approve=person.approve, clarify=person.clarify)
    )
    await until(lambda: len(model.requests) == 2)
    left = journal.after(len(journal.appends))
    run.cancel()
    await asyncio.wait([run])
    assert person.asked == ["Where to?"]
    again, asked = Travel().agent(QUESTION, PLAN)
    answer = await again.run_task(TRIP, journal=left, approve=person.approve, clarify=person.clarify)
    assert answer == "a room at the Plaza"
    assert person.asked == ["Where to?", "approve 1 2"]
    assert "To Rome." in asked.requests[1].messages[-1].content


async def test_another_question_is_asked_after_a_crash() -> None:
    journal, person = MemoryJournal(), Person()
    agent, _ = Travel().agent(QUESTION, "no plan", "no plan")
    with pytest.raises(MalformedPlan):
        await agent.run_task(TRIP, mode=TaskMode.PLANNED, journal=journal, clarify=person.clarify)
    again, _ = Travel().agent('{"question": "When?"}', PLAN)
    await again.run_task(TRIP, journal=journal, clarify=person.clarify)
    assert person.asked == ["Where to?", "When?"]


async def test_the_same_question_about_a_later_plan_is_asked() -> None:
    person, travel = Person(), Travel(is_open=False)
    agent, _ = travel.agent(QUESTION, PLAN)
    left = await killed(agent, travel, MemoryJournal(), clarify=person.clarify)

    @tool(idempotent=True)
    def book_hotel(name: str) -> str:
        """Books a hotel."""
        if name == "Plaza":
            raise RuntimeError("booked out")
        return f"a room at the {name}"

    other = reply(step("3", "book_hotel", "1", name="Annex"))
    again = Agent("clerk", model=ScriptedModel([QUESTION, other]), tools=[travel.tools[0], book_hotel])
    assert await again.run_task(TRIP, journal=left, clarify=person.clarify) == "a room at the Annex"
    assert person.asked == ["Where to?", "Where to?"]


@pytest.mark.parametrize("crash_before_the_plan", [False, True])
async def test_an_approval_is_not_asked_for_again(crash_before_the_plan: bool) -> None:
    journal, person, travel = MemoryJournal(), Person(), Travel(is_open=False)
    agent, _ = travel.agent(PLAN)
    left = await killed(agent, travel, journal, approve=person.approve)
    if crash_before_the_plan:
        approved = next(number for number, each in enumerate(left.appends, 1) if b"approve" in b"".join(each))
        left = left.after(approved)
    again, model = Travel().agent(PLAN)
    assert await again.run_task(TRIP, journal=left, approve=person.approve) == "a room at the Plaza"
    assert person.asked == ["approve 1 2"]
    assert len(model.requests) == crash_before_the_plan


async def test_a_plan_that_a_person_has_changed_is_not_asked_about_again() -> None:
    changed = Task("other", TRIP, "Book", ())
    travel, journal = Travel(is_open=False), MemoryJournal()

    async def approve(task: Task) -> Task:
        return Task(task.id, task.original_query, task.goal, task.subtasks[1:])

    only_hotel = reply(step("1", "book_flight", city="Rome"), step("2", "book_hotel", name="Plaza"))
    agent, _ = travel.agent(only_hotel)
    left = await killed(agent, travel, journal, approve=approve)
    approved = next(number for number, each in enumerate(left.appends, 1) if b"approve" in b"".join(each))
    after = Travel()
    again, _ = after.agent(only_hotel)
    person = Person(changed)
    assert await again.run_task(TRIP, journal=left.after(approved), approve=person.approve) == "a room at the Plaza"
    assert (after.calls, person.asked) == (["Plaza"], [])


async def test_a_refusal_counts_after_a_restart() -> None:
    journal, person = MemoryJournal(), Person(decision=False)
    for _ in range(2):
        agent, _ = Travel().agent(PLAN)
        with pytest.raises(PlanNotApproved):
            await agent.run_task(TRIP, journal=journal, approve=person.approve)
    assert person.asked == ["approve 1 2"]
    agent, _ = Travel().agent(reply(step("2", "book_hotel", name="Plaza")))
    person.decision = True
    assert await agent.run_task(TRIP, journal=journal, approve=person.approve) == "a room at the Plaza"
    assert person.asked == ["approve 1 2", "approve 2"]


async def test_within_a_process_each_plan_is_asked_about() -> None:
    """Without a crash the functions are called as without a journal, also for a plan that is the same."""

    class Hotel:
        calls = 0

    @tool(idempotent=True)
    def book_hotel(name: str) -> str:
        """Books a hotel."""
        Hotel.calls += 1
        if Hotel.calls == 1:
            raise RuntimeError("booked out")
        return "a room"

    same = reply(step("1", "book_hotel", name="Plaza"))
    person = Person()
    agent = Agent("clerk", model=ScriptedModel([same, same]), tools=[book_hotel])
    answer = await agent.run_task(TRIP, mode=TaskMode.PLANNED, journal=MemoryJournal(), approve=person.approve)
    assert answer == "a room"
    assert person.asked == ["approve 1", "approve 1"]


# Workflows -----------------------------------------------------------------------------------------------------------

WORKFLOW = """
name: trip
version: 1
description: Books a hotel
parameters:
  city: {description: where to}
steps:
  - tool: book_hotel
    args: {name: "{{ city }}"}
"""


async def test_a_workflow_with_other_arguments_is_another_task(tmp_path: Path) -> None:
    workflow = load(tmp_path, WORKFLOW)
    travel, journal = Travel(), MemoryJournal()
    agent, _ = travel.agent()
    await agent.run_task("Book it", planner=WorkflowPlanner(workflow, {"city": "Rome"}), journal=journal)
    with pytest.raises(JournalMismatch, match=r"of trip@1 .*Rome.*, not of trip@1 .*Paris"):
        await agent.run_task("Book it", planner=WorkflowPlanner(workflow, {"city": "Paris"}), journal=journal)
    assert travel.calls == ["Rome"]


HOTELS = """
name: trip
version: 1
description: Books two hotels
parameters:
  city: {description: where to}
steps:
  - for_each: "{{ [city, 'Annex'] }}"
    as: name
    steps:
      - tool: book_hotel
        args: {name: "{{ name }}"}
"""


async def test_the_answer_of_a_template_survives(tmp_path: Path) -> None:
    """It has two last steps, whose results no model combines."""
    templates = [WorkflowTemplate(load(tmp_path, HOTELS))]
    travel, journal = Travel(is_open=False), MemoryJournal()
    agent, _ = travel.agent()
    run = asyncio.create_task(agent.run_task("trip city=Plaza", templates=templates, journal=journal))
    await until(lambda: "Plaza" in travel.calls)
    left = journal.after(len(journal.appends))
    run.cancel()
    await asyncio.wait([run])
    again, model = Travel().agent()
    answer = await again.run_task("trip city=Plaza", templates=templates, journal=left)
    assert answer == "a room at the Plaza\n\na room at the Annex"
    assert model.requests == []


# Budgets -------------------------------------------------------------------------------------------------------------


async def test_what_was_spent_before_a_crash_counts_after_it() -> None:
    travel = Travel(is_open=False)
    agent, _ = travel.agent(PLAN, middlewares=[BudgetMiddleware(max_model_calls=1)])
    left = await killed(agent, travel, MemoryJournal())
    two = MemoryJournal(left.appends)
    again, _ = Travel().agent("x", middlewares=[BudgetMiddleware(max_model_calls=2)])
    assert await again.run_task(TRIP, journal=left) == "a room at the Plaza"
    poor, _ = Travel().agent("x", middlewares=[BudgetMiddleware(max_model_calls=1)])
    assert await poor.run_task(TRIP, journal=two) == "a room at the Plaza"
    assert poor.state is not None
    assert poor.state.global_storage.get("archon.budget")[1] == 1


async def test_an_initial_context_without_a_json_form_is_refused() -> None:
    journal = MemoryJournal()
    agent, model = Travel().agent(PLAN)
    with pytest.raises(InvalidArgument, match="the initial context cannot be kept in a journal"):
        await agent.run_task(TRIP, journal=journal, initial_context={"db": object()})
    assert (model.requests, journal.appends, journal.is_open) == ([], [], False)
