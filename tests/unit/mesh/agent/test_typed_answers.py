"""Agents with an output: what the model is asked, repairs, hooks, sub-agents, and tasks of several steps."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_serializer

from archon.errors import InvalidArgument, OutputMismatch
from archon_mesh.agent import Agent, AgentConfig, AgentFactory, HookContext, IterationLimit, Middleware, ReplyCut, stop
from archon_mesh.agent.errors import ModelRefused
from archon_mesh.agent.events.types import AgentEvent, RunFinished, TextMessageContent
from archon_mesh.agent.hooks.points import Outcome
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ScriptedModel, Usage
from archon_mesh.planning import TaskMode
from archon_mesh.tools import tool
from tests.fixtures.plan_replies import reply, subtask
from tests.fixtures.scripted_model import says


class City(BaseModel):
    name: str
    people: int


ROME = '{"name": "Rome", "people": 3}'
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool
def look(place: str) -> str:
    """Looks."""
    return f"nothing at {place}"


def cut(text: str) -> ModelReply:
    return ModelReply(text, (), Usage(1, 1), "scripted", "length")


async def test_answer_is_an_object_of_the_type() -> None:
    model = ScriptedModel([ROME])
    agent = Agent("a", system_prompt="Be brief.", model=model, output=City)
    city = await agent.run_async("Which city?")
    assert city == City(name="Rome", people=3)
    (request,) = model.requests
    assert request.output_schema == City.model_json_schema()
    assert [message.role for message in request.messages] == ["system", "system", "user"]
    assert json.dumps(request.output_schema) in request.messages[1].content
    assert [message.content for message in agent.history] == ["Which city?", '{"name":"Rome","people":3}']


async def test_answer_to_a_json_schema_is_the_value() -> None:
    assert await Agent("a", model=ScriptedModel([ROME]), output=SCHEMA).run_async("?") == {"name": "Rome", "people": 3}


def test_text_stays_text() -> None:
    model = ScriptedModel(["Rome", "Rome"])
    assert Agent("a", model=model).run("?") == "Rome"
    assert Agent("a", model=model, output=str).run("?") == "Rome"
    assert all(request.output_schema is None and len(request.messages) == 1 for request in model.requests)


@pytest.mark.parametrize("output", [5, "City", {"type": "nope"}], ids=repr)
def test_what_is_no_type_is_refused_when_the_agent_is_made(output: object) -> None:
    with pytest.raises(InvalidArgument, match="agent a: invalid output"):
        Agent("a", output=output)
    with pytest.raises(InvalidArgument, match="agent a: invalid output"):
        Agent(AgentConfig("a", output=output))


def test_factory_passes_the_output_on() -> None:
    factory = AgentFactory({"model": ScriptedModel([ROME])}).register("a", Agent, defaults={"output": City})
    assert factory.create("a").run("?") == City(name="Rome", people=3)


async def test_model_is_told_once_what_does_not_match() -> None:
    model = ScriptedModel(['{"name": "Rome"}', ROME])
    assert await Agent("a", model=model, output=City).run_async("?") == City(name="Rome", people=3)
    first, second = model.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert second.messages[-2].content == '{"name": "Rome"}'
    assert "- people: Field required" in second.messages[-1].content


async def test_second_mismatch_fails_with_text_and_violations() -> None:
    agent = Agent("a", model=ScriptedModel(["Rome", '{"name": "Rome"}']), output=City)
    with pytest.raises(OutputMismatch, match="a: the answer does not match") as raised:
        await agent.run_async("?")
    assert raised.value.text == '{"name": "Rome"}'
    assert [violation.field for violation in raised.value.field_violations] == ["people"]


async def test_repair_may_follow_the_last_iteration() -> None:
    model = ScriptedModel(["Rome", ROME])
    agent = Agent("a", model=model, output=City, max_iterations=1)
    assert await agent.run_async("?") == City(name="Rome", people=3)


async def test_model_may_call_tools_before_and_after_a_repair() -> None:
    calls = [ToolCall(str(number), "look", f'{{"place": "{number}"}}') for number in range(2)]
    model = ScriptedModel([calls[0], "It is Rome.", calls[1], ROME])
    agent = Agent("a", model=model, output=City, tools=[look])
    assert await agent.run_async("?") == City(name="Rome", people=3)
    assert all([tool.name for tool in request.tools] == ["look"] for request in model.requests)


async def test_iteration_limit_holds_without_an_answer() -> None:
    model = ScriptedModel([ToolCall(str(number), "look", f'{{"place": "{number}"}}') for number in range(5)])
    with pytest.raises(IterationLimit, match="after 3 iterations"):
        await Agent("a", model=model, output=City, tools=[look], max_iterations=3).run_async("?")
    assert len(model.requests) == 3


async def test_refusal_is_no_mismatch() -> None:
    declined = ModelReply("I cannot.", (), Usage(1, 1), "scripted", "content_filter")
    with pytest.raises(ModelRefused):
        await Agent("a", model=ScriptedModel([declined, declined]), output=City).run_async("?")


@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        ('{"name":', ' "Rome", "people": 3}'),
        ('{"name":', ROME),
        ('{"name": "Ro', 'me", "people": 3}'),
        ('{"name": "Ro', ROME),
        ('{"name": "Oslo", "peop', ROME),
        ('```json\n{"name": "Ro', 'me", "people": 3}\n```'),
    ],
)
async def test_cut_answer_is_continued_or_given_anew(begun: str, rest: str) -> None:
    model = ScriptedModel([cut(begun), rest])
    assert await Agent("a", model=model, output=City).run_async("?") == City(name="Rome", people=3)
    assert [request.output_schema is None for request in model.requests] == [False, True]


async def test_rest_of_a_cut_answer_may_look_like_a_whole_one() -> None:
    class Node(BaseModel):
        name: str
        children: list[Node] = []

    Node.model_rebuild(_types_namespace={"Node": Node})
    model = ScriptedModel([cut('{"name": "a", "children": ['), '{"name": "b"}]}'])
    assert (await Agent("a", model=model, output=Node).run_async("?")).name == "a"


async def test_answer_that_is_cut_again_and_again_fails_as_before() -> None:
    with pytest.raises(ReplyCut):
        await Agent("a", model=ScriptedModel([cut('{"name":')] * 9), output=City).run_async("?")


class Changing(Middleware):
    """Puts another answer in place of the model's, at one point."""

    def __init__(self, point: str, answer: str) -> None:
        self._point = point
        self._answer = answer

    def after_agent(self, hook: HookContext) -> None:
        hook.value = self._answer if self._point == "after_agent" else hook.value

    def query_end(self, hook: HookContext) -> None:
        hook.value = self._answer if self._point == "query_end" else hook.value

    def query_start(self, hook: HookContext) -> Outcome | None:
        return stop(self._answer) if self._point == "query_start" else None

    def before_model(self, hook: HookContext) -> Outcome | None:
        return stop(self._answer) if self._point == "before_model" else None


@pytest.mark.parametrize("point", ["after_agent", "query_end", "query_start", "before_model"])
async def test_answer_of_a_hook_is_validated(point: str) -> None:
    oslo = Changing(point, '```json\n{"name": "Oslo", "people": 1}\n```')
    agent = Agent("a", model=ScriptedModel([ROME]), output=City, middlewares=[oslo])
    assert await agent.run_async("?") == City(name="Oslo", people=1)
    wrong = Agent("a", model=ScriptedModel([ROME]), output=City, middlewares=[Changing(point, "Oslo")])
    events: list[AgentEvent] = []
    with pytest.raises(OutputMismatch, match="a: the answer") as raised:
        await wrong.run_async("?", event_handlers=[events.append])
    assert raised.value.text == "Oslo"
    assert events[-1].type == "RUN_ERROR"


async def test_goal_check_sees_the_answer_as_json() -> None:
    seen: list[Any] = []

    def check(state: Any, answer: str | None) -> bool | str:
        seen.append(json.loads(answer or "null"))
        return True if seen[-1]["people"] > 1 else "too few"

    model = ScriptedModel(['{"name": "Oslo", "people": 1}', f"```json\n{ROME}\n```"])
    agent = Agent("a", model=model, output=City, goal_check=check)
    assert (await agent.run_async("?")).name == "Rome"
    assert [each["name"] for each in seen] == ["Oslo", "Rome"]


@pytest.mark.parametrize("stateless", [False, True])
async def test_sub_agent_gives_json_text_to_its_caller(stateless: bool) -> None:
    typed = Agent("typed", model=ScriptedModel([f"It is {ROME}."]), output=City)
    model = ScriptedModel([ToolCall("1", "typed", '{"task": "a city"}'), "Rome has 3."])
    agent = Agent("a", model=model)
    agent.register_agent(typed, stateless=stateless)
    assert await agent.run_async("?") == "Rome has 3."
    assert model.requests[1].messages[-1].content == '{"name":"Rome","people":3}'


async def test_sub_agent_whose_type_writes_another_form_gives_that() -> None:
    class Time(BaseModel):
        seconds: int

        @field_serializer("seconds")
        def _with_unit(self, value: int) -> str:
            return f"{value} s"

    typed = Agent("typed", model=ScriptedModel(['{"seconds": 5}']), output=Time)
    model = ScriptedModel([ToolCall("1", "typed", '{"task": "how long?"}'), "5 s."])
    assert await Agent("a", model=model, sub_agents=[typed]).run_async("?") == "5 s."
    assert model.requests[1].messages[-1].content == '{"seconds":"5 s"}'


async def test_text_is_streamed_as_before() -> None:
    events: list[AgentEvent] = []

    async def on_event(event: AgentEvent) -> None:
        events.append(event)

    agent = Agent("a", model=ScriptedModel([ROME]), output=City)
    await agent.run_async("?", event_handlers=[on_event])
    text = "".join(event.delta for event in events if isinstance(event, TextMessageContent))
    assert text == ROME
    assert next(event.result for event in events if isinstance(event, RunFinished)) == '{"name":"Rome","people":3}'


async def test_successful_tool_may_give_the_answer() -> None:
    @tool
    def find() -> dict[str, Any]:
        """Finds."""
        return {"name": "Rome", "people": 3}

    model = ScriptedModel([ToolCall("1", "find", "{}")])
    agent = Agent("a", model=model, output=City, tools=[find], exit_on_success=["find"])
    assert await agent.run_async("?") == City(name="Rome", people=3)


async def test_task_of_several_steps_ends_with_an_object() -> None:
    plan = reply(subtask("1"), subtask("2"), goal="a city and its people")
    model = ScriptedModel([plan, "Rome", "3 people", '{"name": "Rome"}', ROME])
    agent = Agent("a", model=model, output=City)
    assert await agent.run_task("a city and its people", mode=TaskMode.PLANNED) == City(name="Rome", people=3)
    assert [request.output_schema is not None for request in model.requests] == [True, False, False, True, True]
    assert "people: Field required" in model.requests[-1].messages[-1].content


async def test_step_has_an_output_of_its_own() -> None:
    step = {**subtask("1"), "output_schema": {"type": "array", "items": {"type": "integer"}}}
    model = ScriptedModel([reply(step), "one and two", '{"answer": [1, 2]}'])
    assert await Agent("a", model=model).run_task("numbers", mode=TaskMode.PLANNED) == "[1, 2]"
    assert model.requests[1].output_schema is not None


async def test_direct_answer_of_a_task_is_typed() -> None:
    agent = Agent("a", model=ScriptedModel([ROME]), output=City)
    assert await agent.run_task("a city", mode=TaskMode.DIRECT) == City(name="Rome", people=3)


async def test_offline_model_answers_with_an_object() -> None:
    assert (await Agent("a", output=City).run_async("Find a city")).people == 0


def test_types_of_answers_are_known_to_callers() -> None:
    number: int = Agent("a", model=ScriptedModel([says("42")]), output=int).run("?")
    text: str = Agent("a", model=ScriptedModel([says("42")])).run("?")
    assert (number, text) == (42, "42")
