"""Tasks that an agent plans: `Agent.run_task`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from archon.errors import PermissionDenied
from archon_mesh.agent import Agent, BudgetMiddleware, PermissionMiddleware
from archon_mesh.agent.events.types import AgentEvent, Custom
from archon_mesh.core.messages import ToolCall
from archon_mesh.engine.plan import Task
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.planning import PlanFailed, PlanNotApproved, TaskMode, TaskOutcome, align_by_model
from archon_mesh.tools import tool
from archon_mesh.tools.builtin import Calculator
from tests.fixtures.waiting import until

TRIP = "Book a flight to Rome and then book a hotel there"


def reply(*subtasks: dict[str, Any], goal: str = "Book a trip to Rome") -> str:
    return json.dumps({"goal": goal, "subtasks": subtasks})


def subtask(id: str, *dependencies: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "description": f"Do {id}", "dependencies": list(dependencies), **fields}


def outcome_of(agent: Agent) -> TaskOutcome:
    assert agent.planned_run is not None
    assert agent.planned_run.outcome is not None
    return agent.planned_run.outcome


class Travel:
    """Tools that book, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        travel = self

        @tool
        def book_flight(city: str) -> str:
            """Books a flight."""
            travel.calls.append(f"flight to {city}")
            return "AB12"

        @tool
        def book_hotel(name: str) -> str:
            """Books a hotel."""
            travel.calls.append(name)
            if name == "Grand":
                raise RuntimeError("the Grand is booked out")
            return f"a room at the {name}"

        self.tools = [book_flight, book_hotel]


FLIGHT = subtask("1", tool_name="book_flight", tool_args={"city": "Rome"}, critical=True)


async def test_a_booked_out_hotel_is_replanned_and_the_flight_kept() -> None:
    travel = Travel()
    model = ScriptedModel(
        [
            reply(FLIGHT, subtask("2", "1", tool_name="book_hotel", tool_args={"name": "Grand"})),
            reply(subtask("3", "1", tool_name="book_hotel", tool_args={"name": "Plaza"})),
        ]
    )
    agent = Agent("clerk", model=model, tools=travel.tools)
    assert await agent.run_task(TRIP) == "a room at the Plaza"
    assert travel.calls == ["flight to Rome", "Grand", "Plaza"]
    outcome = outcome_of(agent)
    assert (outcome.replans, len(outcome.plans)) == (1, 1)
    progress = json.loads(model.requests[1].messages[-1].content)["progress"]
    assert progress[1]["status"] == "failed"
    assert "the Grand is booked out" in progress[1]["result"]


async def test_a_trip_in_the_wrong_direction_is_corrected() -> None:
    """No step fails, but the hotels are in another city."""
    travel = Travel()
    model = ScriptedModel(
        [
            reply(
                FLIGHT,
                subtask("2", "1", tool_name="book_hotel", tool_args={"name": "Paris Plaza"}),
                subtask("3", "2", tool_name="book_hotel", tool_args={"name": "Paris Annex"}),
            ),
            reply(subtask("4", "1", tool_name="book_hotel", tool_args={"name": "Rome Plaza"})),
            "A flight to Rome, and a room there.",
        ]
    )
    judge = ScriptedModel(['{"aligned": false, "problem": "the hotels are in Paris"}'])
    agent = Agent("clerk", model=model, tools=travel.tools)
    assert await agent.run_task(TRIP, alignment=align_by_model(judge)) == "A flight to Rome, and a room there."
    assert travel.calls[-1] == "Rome Plaza"
    outcome = outcome_of(agent)
    assert (outcome.replans, len(outcome.plans)) == (1, 1)
    asked = json.loads(model.requests[1].messages[-1].content)
    assert asked["reason"] == "the plan no longer serves the query: the hotels are in Paris"


async def test_two_agents_do_their_parts_and_one_synthesis_is_made() -> None:
    mathematician = ScriptedModel(["360"])
    historian = ScriptedModel(["360 is the number of degrees of a circle."])
    model = ScriptedModel(
        [
            reply(
                {"id": "1", "description": "Calculate 15 * 24", "role": "mathematician"},
                {"id": "2", "description": "Find facts about 360", "role": "historian"},
                goal="15 * 24, and facts about 360",
            ),
            "15 * 24 is 360, which is the number of degrees of a circle.",
        ]
    )
    agent = Agent(
        "coordinator",
        model=model,
        sub_agents=[
            Agent("mathematician", description="Calculates.", model=mathematician),
            Agent("historian", description="Knows facts.", model=historian),
        ],
    )
    answer = await agent.run_task("15*24, and facts about 360")
    assert answer == "15 * 24 is 360, which is the number of degrees of a circle."
    assert (len(mathematician.requests), len(historian.requests), len(model.requests)) == (1, 1, 2)
    assert "Calculate 15 * 24" in mathematician.requests[0].messages[-1].content
    assert "facts about 360" in historian.requests[0].messages[-1].content
    assert [each["result"] for each in json.loads(model.requests[1].messages[-1].content)["results"]] == [
        "360",
        "360 is the number of degrees of a circle.",
    ]
    outcome = outcome_of(agent)
    assert outcome.mode is TaskMode.SEVERAL_AGENTS
    assert "the plan gives subtasks to mathematician, historian" in outcome.reason


async def test_the_same_works_offline_without_a_key() -> None:
    agent = Agent(
        "coordinator",
        tools=[Calculator()],
        sub_agents=[Agent("historian", description="Knows facts about numbers.", model=ScriptedModel(["A circle."]))],
    )
    answer = await agent.run_task("15 * 24, and facts about 360")
    assert "## 15 * 24\n\n360" in answer
    assert "## facts about 360\n\nA circle." in answer


async def test_a_query_of_one_step_is_answered_directly() -> None:
    events: list[AgentEvent] = []
    model = ScriptedModel([ToolCall("1", "calculator", '{"expression": "15 * 24"}'), "It is 360."])
    agent = Agent("clerk", model=model, tools=[Calculator()])
    assert await agent.run_task("What is 15 * 24?", event_handlers=[events.append]) == "It is 360."
    assert (outcome_of(agent).mode, outcome_of(agent).reason) == (TaskMode.DIRECT, "the query is one step")
    decided = [event for event in events if isinstance(event, Custom)]
    assert [event.value for event in decided] == [{"message": "direct: the query is one step"}]


async def test_the_caller_may_choose_how_it_is_answered() -> None:
    agent = Agent("clerk", model=ScriptedModel([reply(subtask("1")), "thought"]))
    assert await agent.run_task("Book it.", mode=TaskMode.PLANNED) == "thought"
    assert outcome_of(agent).reason == "the caller chose it"


async def test_a_single_final_result_needs_no_synthesis() -> None:
    model = ScriptedModel([reply(FLIGHT, subtask("2", "1")), "Your flight is AB12."])
    agent = Agent("clerk", model=model, tools=Travel().tools)
    assert await agent.run_task(TRIP) == "Your flight is AB12."
    assert "[1] Do 1\nAB12" in model.requests[1].messages[-1].content
    assert model.requests[1].tools == ()


async def test_a_subtask_with_a_tool_may_use_that_tool_only() -> None:
    offered = []

    def respond(request: ModelRequest) -> str | ToolCall:
        if request.messages[0].role == "system":
            return reply(subtask("1", tool_name="book_flight"))
        offered.append([each.name for each in request.tools])
        return ToolCall("1", "book_flight", '{"city": "Rome"}') if len(offered) == 1 else "Booked."

    agent = Agent("clerk", model=ScriptedModel(respond), tools=[*Travel().tools, Calculator()])
    assert await agent.run_task(TRIP) == "Booked."
    assert offered[0] == ["book_flight"]


async def test_a_planned_answer_stays_in_the_history() -> None:
    agent = Agent("clerk", model=ScriptedModel([reply(subtask("1")), "Done."]))
    await agent.run_task(TRIP)
    assert [(message.role, message.content) for message in agent.history] == [("user", TRIP), ("assistant", "Done.")]


async def test_front_ends_see_the_plan_and_its_steps() -> None:
    events: list[AgentEvent] = []
    agent = Agent("clerk", model=ScriptedModel([reply(FLIGHT)]), tools=Travel().tools)
    await agent.run_task(TRIP, event_handlers=[events.append])
    names = [event.name if isinstance(event, Custom) else event.type for event in events]
    assert names == [
        "RUN_STARTED",
        "plan.decided",
        "plan.created",
        "STEP_STARTED",
        "plan.subtask_started",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "plan.subtask_completed",
        "STEP_FINISHED",
        "plan.completed",
        "RUN_FINISHED",
    ]
    assert {event.run_id for event in events} == {events[0].run_id}
    created = events[2].to_dict()
    assert (created["type"], created["name"]) == ("CUSTOM", "plan.created")
    assert json.loads(json.dumps(created))["value"]["subtasks"][0]["id"] == "1"


async def test_hooks_guard_the_tools_of_a_plan() -> None:
    travel = Travel()
    agent = Agent(
        "clerk",
        model=ScriptedModel([reply(FLIGHT), *[reply(FLIGHT)] * 3, *["no"] * 10]),
        tools=travel.tools,
        middlewares=[PermissionMiddleware(lambda hook: "ask the boss first")],
    )
    with pytest.raises(PlanFailed) as raised:
        await agent.run_task(TRIP)
    assert travel.calls == []
    assert "ask the boss first" in str(raised.value.plans[0].subtasks[0].result)


async def test_a_budget_covers_planning_and_subtasks() -> None:
    model = ScriptedModel([reply(subtask("1"), subtask("2")), "a", "b", "c"])
    agent = Agent("clerk", model=model, middlewares=[BudgetMiddleware(max_model_calls=2)])
    with pytest.raises(Exception, match="insufficient budget: all 2 model calls are used"):
        await agent.run_task(TRIP)
    assert len(model.requests) <= 2


async def test_the_cost_of_a_subtask_is_that_of_its_model_calls() -> None:
    def priced(text: str) -> ModelReply:
        return ModelReply(text, (), Usage(10, 10, cost_micro_usd=40), "scripted", "stop")

    poet = Agent("poet", description="Writes.", model=ScriptedModel([priced("A poem.")]))
    model = ScriptedModel([priced(reply(subtask("1", role="poet"), subtask("2", "1"))), priced("Done.")])
    agent = Agent("clerk", model=model, sub_agents=[poet])
    await agent.run_task(TRIP)
    assert {id_: each.cost_micro_usd for id_, each in outcome_of(agent).measured.items()} == {"1": 40, "2": 40}


async def test_a_sub_agent_that_calls_its_caller_does_not_block() -> None:
    agent = Agent("clerk", model=ScriptedModel([reply(subtask("1", role="poet"))]))

    @tool
    async def ask_clerk() -> str:
        """Asks the clerk."""
        return await agent.run_async("Help.")

    poet_model = ScriptedModel([ToolCall("1", "ask_clerk", "{}"), "I managed alone."])
    agent.register_agent(Agent("poet", model=poet_model, tools=[ask_clerk]))
    assert await agent.run_task(TRIP) == "I managed alone."
    assert "delegation loop" in poet_model.requests[1].messages[-1].content


async def test_a_paused_agent_calls_no_tool_of_its_plan() -> None:
    travel = Travel()
    agent: Agent

    def respond(request: ModelRequest) -> str:
        agent.pause()
        return reply(FLIGHT)

    agent = Agent("clerk", model=ScriptedModel(respond), tools=travel.tools)
    running = asyncio.create_task(agent.run_task(TRIP))
    await until(lambda: agent.paused and agent.planned_run is not None and agent.planned_run.executor is not None)
    assert travel.calls == []
    agent.resume()
    assert await running == "AB12"


async def test_a_cancelled_task_stops_its_subtasks() -> None:
    began, cancelled = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return ""

    agent = Agent("clerk", model=ScriptedModel([reply(subtask("1", tool_name="wait"))]), tools=[wait])
    running = asyncio.create_task(agent.run_task(TRIP))
    async with asyncio.timeout(60):
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await cancelled.wait()


async def test_the_phases_of_a_planned_run_are_seen() -> None:
    travel, phases = Travel(), []
    hotel = subtask("2", "1", tool_name="book_hotel", tool_args={"name": "Grand"})
    replies = iter([reply(FLIGHT, hotel), reply(subtask("3", "1"))])

    def respond(request: ModelRequest) -> str:
        phases.append(str(agent.phase))
        return next(replies, "Done.")

    agent = Agent("clerk", model=ScriptedModel(respond), tools=travel.tools)
    await agent.run_task(TRIP)
    assert phases == ["planning", "replanning", "executing"]
    assert str(agent.phase) == "finished"


async def test_a_person_may_refuse_the_plan() -> None:
    async def approve(task: Task) -> bool:
        return False

    agent = Agent("clerk", model=ScriptedModel([reply(FLIGHT)]), tools=Travel().tools)
    with pytest.raises(PlanNotApproved) as raised:
        await agent.run_task(TRIP, approve=approve)
    assert isinstance(raised.value, PermissionDenied)


async def test_a_hook_may_ask_for_another_answer() -> None:

    agent = Agent("clerk", model=ScriptedModel([reply(FLIGHT), "Here you are, please."]), tools=Travel().tools)
    agent.on("before_final_response").when(lambda hook: "please" not in hook.value).handle("retry")
    assert await agent.run_task(TRIP) == "Here you are, please."


@pytest.mark.parametrize("answers", [["Booked.", "Room at the Plaza."], ["Booked.", "Done.", "Well."]])
async def test_an_answer_that_misses_the_goal_is_written_anew(answers: list[str]) -> None:
    def check(state: object, answer: str | None) -> bool | str:
        return "Plaza" in (answer or "") or "name the hotel"

    travel = Travel()
    hotel = subtask("2", tool_name="book_hotel", tool_args={"name": "Plaza"})
    model = ScriptedModel([reply(FLIGHT, hotel), *answers])
    agent = Agent("clerk", model=model, tools=travel.tools, goal_check=check)
    if answers[-1] == "Well.":
        with pytest.raises(PlanFailed, match=r"3 answers .* refused, the last one: .*name the hotel"):
            await agent.run_task(TRIP)
        return
    assert await agent.run_task(TRIP) == "Room at the Plaza."
    assert "name the hotel" in json.loads(model.requests[-1].messages[-1].content)["refused"]
    assert travel.calls.count("Plaza") == 1, "no step is executed again"


async def test_the_executor_can_be_asked_for_the_plan() -> None:
    seen: list[list[str]] = []

    def respond(request: ModelRequest) -> str:
        if request.messages[0].role == "system":
            return reply(subtask("1"))
        assert agent.planned_run is not None
        assert agent.planned_run.executor is not None
        task = agent.planned_run.executor.task
        assert task is not None
        seen.append([each.status.value for each in task.subtasks])
        return "Done."

    agent = Agent("clerk", model=ScriptedModel(respond))
    await agent.run_task(TRIP)
    assert seen == [["executing"]]


def test_a_restricted_fork_has_these_tools_and_nothing_else() -> None:
    agent = Agent("clerk", tools=[*Travel().tools, Calculator()], sub_agents=[Agent("poet")])
    fork = agent.restricted(["calculator"])
    assert (fork.tools.names, dict(fork.sub_agents), list(fork.history)) == (["calculator"], {}, [])
    assert len(agent.tools) == 4
