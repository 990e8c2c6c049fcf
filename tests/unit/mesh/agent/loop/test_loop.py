"""The loop: requests to the model, results, limits, cancellation and pausing."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from archon.errors import FailedPrecondition, InvalidArgument, Unavailable
from archon_mesh.agent import Agent, AgentState, IterationLimit, Phase, get_context
from archon_mesh.agent.loop.notes import LAST_STEP
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.tools import ToolResult, tool
from tests.fixtures.scripted_model import says


@tool
def multiply(a: float, b: float) -> float:
    """Multiplies two numbers."""
    return a * b


def calls(name: str, count: int = 1, arguments: str = "{}", prefix: str = "c") -> ModelReply:
    return says("", *(ToolCall(f"{prefix}{number}", name, arguments) for number in range(1, count + 1)))


def contents(request: ModelRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.messages]


async def test_calculation_takes_two_iterations() -> None:
    model = ScriptedModel([calls("multiply", arguments='{"a": 15, "b": 3}'), says("It is 45.")])
    agent = Agent("calculator", system_prompt="You calculate.", model=model, tools=[multiply])
    assert await agent.run_async("15 * 3?") == "It is 45."
    assert [tool.name for tool in model.requests[0].tools] == ["multiply"]
    assert contents(model.requests[1]) == [
        ("system", "You calculate."),
        ("user", "15 * 3?"),
        ("assistant", ""),
        ("tool", "45.0"),
    ]
    assert agent.state is not None
    assert (agent.state.current_iteration, agent.phase) == (2, Phase.FINISHED)


def test_run_raises_inside_an_event_loop() -> None:
    assert Agent("a", model=ScriptedModel([says("yes")])).run("?") == "yes"

    async def inside() -> None:
        with pytest.raises(FailedPrecondition, match="await run_async"):
            Agent("a", model=ScriptedModel()).run("?")

    asyncio.run(inside())


@pytest.mark.parametrize("limit", [1, 3, 5])
async def test_iteration_limit_is_exact_and_carries_the_partial_answer(limit: int) -> None:
    model = ScriptedModel(calls("multiply", arguments=f'{{"a": 1, "b": {number}}}') for number in range(9))
    agent = Agent("a", model=model, tools=[multiply], max_iterations=limit)
    with pytest.raises(IterationLimit, match=f"no answer after {limit} iterations") as ended:
        await agent.run_async("?")
    assert len(model.requests) == limit
    assert ended.value.partial_answer == "\n\n".join(f"{number}.0" for number in range(limit - 1))


async def test_limit_of_one_run_replaces_that_of_the_agent() -> None:
    model = ScriptedModel(calls("multiply", arguments=f'{{"a": 1, "b": {number}}}') for number in range(9))
    agent = Agent("a", model=model, tools=[multiply], max_iterations=5)
    with pytest.raises(IterationLimit, match="after 2 iterations"):
        await agent.run_async("?", max_iterations=2)
    with pytest.raises(IterationLimit, match="after 5 iterations"):
        await agent.run_async("?")
    with pytest.raises(InvalidArgument, match="at least 1"):
        await agent.run_async("?", max_iterations=0)


async def test_last_iteration_offers_no_tools_and_asks_for_the_answer() -> None:
    model = ScriptedModel([calls("multiply", arguments='{"a": 2, "b": 3}'), says("as far as I know: 6")])
    agent = Agent("a", model=model, tools=[multiply], max_iterations=2)
    assert await agent.run_async("?") == "as far as I know: 6"
    assert contents(model.requests[1])[-1] == ("system", LAST_STEP)
    assert model.requests[1].tools == ()
    assert LAST_STEP not in [message.content for message in agent.history], "the next run does not see it"


async def test_calls_of_a_reply_run_concurrently_and_keep_their_order() -> None:
    ended = [asyncio.Event() for _ in range(5)]
    ended[-1].set()

    @tool
    async def wait_for_next(number: int) -> str:
        """Ends after the next call has ended."""
        async with asyncio.timeout(30):
            await ended[number + 1].wait()
        ended[number].set()
        return f"n{number}"

    tool_calls = [ToolCall(f"c{n}", "wait_for_next", f'{{"number": {n}}}') for n in range(4)]
    model = ScriptedModel([says("", *tool_calls), says("done")])
    await Agent("a", model=model, tools=[wait_for_next]).run_async("?")
    assert [text for role, text in contents(model.requests[1]) if role == "tool"] == ["n0", "n1", "n2", "n3"]


async def test_failed_tool_is_reported_and_affects_no_other() -> None:
    @tool
    def flaky(fail: bool) -> str:
        """Fails if asked to."""
        if fail:
            raise ValueError("boom")
        return "fine"

    tool_calls = [
        ToolCall("1", "flaky", '{"fail": true}'),
        ToolCall("2", "flaky", '{"fail": false}'),
        ToolCall("3", "x", "{}"),
    ]
    model = ScriptedModel([says("", *tool_calls), says("done")])
    assert await Agent("a", model=model, tools=[flaky]).run_async("?") == "done"
    results = [text for role, text in contents(model.requests[1]) if role == "tool"]
    assert results[0] == "Error UNKNOWN (UNKNOWN): ValueError: boom"
    assert results[1] == "fine"
    assert results[2].startswith("Error NOT_FOUND (NOT_FOUND): no tool 'x'")


async def test_policy_limits_which_tools_are_called_and_how_often() -> None:
    model = ScriptedModel([calls("multiply", 2, '{"a": 1, "b": 1}'), calls("secret"), says("done")])
    secret = tool(name="secret")(lambda: "!")
    policy = {"allowed": ["multiply"], "at_most": {"multiply": 1}}
    agent = Agent("a", model=model, tools=[multiply, secret], tool_policy=policy)
    assert await agent.run_async("?") == "done"
    assert [[spec.name for spec in request.tools] for request in model.requests] == [["multiply"], [], []]
    results = [text for role, text in contents(model.requests[2]) if role == "tool"]
    assert results[0] == "1.0"
    assert "multiply may be called at most 1 times per run" in results[1]
    assert "tool secret is not allowed" in results[2]


async def test_exit_on_success_ends_the_run_only_if_the_tool_succeeds() -> None:
    replies = iter([ToolResult.error("not yet"), ToolResult.success("submitted")])

    @tool
    def submit() -> Any:
        """Submits."""
        return next(replies)

    model = ScriptedModel([calls("submit"), calls("submit")])
    assert await Agent("a", model=model, tools=[submit], exit_on_success=["submit"]).run_async("?") == "submitted"
    assert len(model.requests) == 2


async def test_history_persists_between_runs_and_messages_have_run_ids() -> None:
    model = ScriptedModel([says("Tokyo"), says("14 million")])
    agent = Agent("a", model=model)
    await agent.run_async("The capital of Japan?")
    await agent.run_async("Its population?")
    assert [text for _, text in contents(model.requests[1])] == ["The capital of Japan?", "Tokyo", "Its population?"]
    runs = [message.run_id for message in agent.history]
    assert runs[0] == runs[1] != runs[2] == runs[3]


async def test_message_list_ends_with_the_query() -> None:
    model = ScriptedModel([says("b")])
    before = [ChatMessage("user", "1"), ChatMessage("assistant", "2"), ChatMessage("user", "3")]
    assert await Agent("a", model=model).run_async(before) == "b"
    assert contents(model.requests[0]) == [("user", "1"), ("assistant", "2"), ("user", "3")]
    with pytest.raises(InvalidArgument):
        await Agent("a", model=ScriptedModel()).run_async([])


async def test_tool_gets_its_agents_state_and_the_callers_context() -> None:
    seen: list[AgentState] = []

    @tool
    def look(agent_state: AgentState) -> str:
        """Looks."""
        seen.extend([agent_state, get_context()])
        agent_state.global_storage.set("seen", True)
        return "ok"

    agent = Agent("a", model=ScriptedModel([calls("look"), says("done")]), tools=[look], agent_id="node")
    await agent.run_async("?", {"user": "me"})
    assert seen[0] is seen[1] is agent.state
    state = seen[0]
    assert (state.agent_id, state.agent_name, state.context) == ("node", "a", {"user": "me"})
    assert (state.root_run_id, state.parent_run_id) == (state.run_id, None)
    assert state.global_storage.to_dict() == {"seen": True}
    with pytest.raises(FailedPrecondition, match="no agent is running here"):
        get_context()


async def test_model_error_is_raised_and_the_next_run_succeeds() -> None:
    agent = Agent("a", model=ScriptedModel([Unavailable("down"), says("back")]), retries=0)
    with pytest.raises(Unavailable, match="down"):
        await agent.run_async("1")
    assert agent.phase is Phase.ERROR
    assert await agent.run_async("2") == "back"


async def test_cancelled_run_leaves_no_task_and_no_unanswered_call() -> None:
    running: set[int] = set()
    begun = asyncio.Event()

    @tool
    async def long(number: int) -> None:
        """Takes long."""
        running.add(number)
        if len(running) == 2:
            begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(number)

    tool_calls = [ToolCall(f"c{n}", "long", f'{{"number": {n}}}') for n in range(2)]
    agent = Agent("a", model=ScriptedModel([says("", *tool_calls), says("go on")]), tools=[long])
    before = asyncio.all_tasks()
    run = asyncio.create_task(agent.run_async("?"))
    await asyncio.wait_for(begun.wait(), 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert not running
    assert asyncio.all_tasks() == before
    assert [message.tool_call_id for message in agent.history if message.role == "tool"] == ["c0", "c1"]
    assert await agent.run_async("and?") == "go on"


async def test_cancellation_during_a_model_call_is_immediate() -> None:
    begun = asyncio.Event()

    class Slow(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    run = asyncio.create_task(Agent("a", model=Slow()).run_async("?"))
    await asyncio.wait_for(begun.wait(), 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 60)


async def test_paused_agent_waits_before_its_next_step_until_resumed() -> None:
    waits = asyncio.Event()

    class Watched(Agent):
        async def wait_until_resumed(self) -> None:
            if self.paused:
                waits.set()
            await super().wait_until_resumed()

    @tool
    async def hold() -> str:
        """Pauses the calling agent."""
        get_context().agent.pause()
        return "held"

    model = ScriptedModel([calls("hold"), says("done")])
    agent = Watched("a", model=model, tools=[hold])
    run = asyncio.create_task(agent.run_async("?"))
    await asyncio.wait_for(waits.wait(), 60)
    assert len(model.requests) == 1
    assert not run.done()
    agent.resume()
    assert await asyncio.wait_for(run, 60) == "done"


async def test_agent_answers_one_query_at_a_time() -> None:
    model = ScriptedModel(says(f"answer {n}") for n in range(5))
    agent = Agent("a", model=model)
    await asyncio.gather(*(agent.run_async(f"query {n}") for n in range(5)))
    texts = [message.content for message in agent.history]
    assert texts == [text for n in range(5) for text in (f"query {n}", f"answer {n}")]


async def test_two_hundred_agents_run_concurrently() -> None:
    all_run = threading.Barrier(200, timeout=60)

    @tool
    def block() -> str:
        """Blocks a thread until two hundred calls run."""
        all_run.wait()
        return "ok"

    agents = [
        Agent(f"a{n}", model=ScriptedModel([calls("block"), says(f"done {n}")]), tools=[block]) for n in range(200)
    ]
    answers = await asyncio.gather(*(agent.run_async("?") for agent in agents))
    assert answers == [f"done {n}" for n in range(200)]


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"max_iterations": 0}, {"max_running_subagents": 0}, {"timeout": 0}, {"tool_timeout": -1}]
)
def test_invalid_config_is_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Agent(**wrong)
    with pytest.raises(TypeError, match="unknown agent field sistem_prompt; the fields are"):
        Agent("a", sistem_prompt="x")  # type: ignore[call-overload]
