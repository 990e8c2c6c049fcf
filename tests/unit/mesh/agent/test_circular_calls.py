"""Agents that call each other in a circle: the call that would wait for ever is refused, and the queries are answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from archon.errors import DeadlineExceeded, FailedPrecondition, InvalidArgument
from archon_mesh.agent import Agent, call_sub_agent, get_context
from archon_mesh.agent.state.call_slots import CallSlots
from archon_mesh.core.messages import ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.memory.sessions import SessionManager
from archon_mesh.tools import tool
from tests.fixtures.scripted_model import says
from tests.fixtures.variants import one_in
from tests.fixtures.waiting import run_ready_tasks


class Asking(ScriptedModel):
    """Calls the first tools that it has, `times` at once, and then answers with their results.

    Replies of all models come in the same turns of the loop, so that agents act at the same time.
    """

    def __init__(self, times: int = 1, rounds: int = 1) -> None:
        super().__init__()
        self._times, self._rounds = times, rounds

    async def generate(self, request: ModelRequest) -> ModelReply:
        await run_ready_tasks()
        asked = sum(message.role == "assistant" for message in request.messages[_query_of(request) :])
        if not request.tools or asked >= self._rounds:
            return says(" | ".join(["answer", *(each.content for each in request.messages if each.role == "tool")]))
        calls = [
            ToolCall(f"{spec.name}-{number}-{asked}", spec.name, '{"task": "go on"}')
            for spec in request.tools
            for number in range(self._times)
        ]
        return says("", *calls)


def _query_of(request: ModelRequest) -> int:
    return max(index for index, message in enumerate(request.messages) if message.role == "user")


def circle(*names: str, stateless: bool, times: int = 1, **more: Any) -> list[Agent]:
    """Agents each of which has the next one as its sub-agent, and the last one the first."""
    agents = [Agent(name, model=Asking(times), **more) for name in names]
    for agent, called in zip(agents, [*agents[1:], agents[0]], strict=True):
        agent.register_agent(called, stateless=stateless)
    return agents


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("stateless", [False, True], ids=["stateful", "stateless"])
@pytest.mark.parametrize("names", ["ab", "abc", pytest.param("abcd", marks=pytest.mark.slow)])
@pytest.mark.parametrize("limit", one_in(2, [1, 2, 8, 4]))
async def test_each_agent_of_a_circle_answers_a_query_of_its_own(
    names: str, stateless: bool, limit: int, times: int
) -> None:
    agents = circle(*names, stateless=stateless, times=times, max_running_subagents=limit)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(agent.run_async("?") for agent in agents))
    assert all(answer.startswith("answer") for answer in answers)
    assert any("DELEGATION_LOOP" in answer for answer in answers)


async def test_an_agent_is_not_called_by_a_copy_that_it_called() -> None:
    depth: list[int] = []

    @tool
    async def go_on(task: str = "") -> str:
        """Goes on."""
        depth.append(len(list(get_context().lineage())))
        return await call_sub_agent("other", "?")

    first, second = Agent("a", model=Asking(), tools=[go_on]), Agent("b", model=Asking(), tools=[go_on])
    first.register_agent(second, name="other", stateless=True)
    second.register_agent(first, name="other", stateless=True)
    assert "DELEGATION_LOOP" in await first.run_async("?")
    assert max(depth) == 2


async def test_an_agent_cannot_be_its_own_sub_agent_as_a_copy() -> None:
    agent = Agent("a")
    with pytest.raises(InvalidArgument, match="itself"):
        agent.register_agent(agent.forked())


async def test_copies_that_share_sub_agents_do_not_wait_for_each_other_in_a_circle() -> None:
    """No chain has an agent twice here: the places for sub-agents alone close the circle."""
    leaf = Agent("leaf", model=ScriptedModel(["leaf"] * 20))
    first, second = (Agent(name, model=Asking(), max_running_subagents=1) for name in "ab")
    for agent, other in ((first, second), (second, first)):
        agent.register_agent(other, stateless=True)
        agent.register_agent(leaf, stateless=True)
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(agent.run_async("?") for agent in (first, second) for _ in range(2)))
    assert len(answers) == 4


async def test_a_long_queue_without_a_circle_is_served_whole() -> None:
    leaf = Agent("leaf", model=Asking())
    callers = [Agent(f"caller {n}", model=Asking(3), sub_agents={"leaf": leaf}) for n in range(8)]
    top = Agent("top", model=Asking(), sub_agents={f"c{n}": caller for n, caller in enumerate(callers)})
    async with asyncio.timeout(20):
        answer = await top.run_async("?")
    assert "DELEGATION_LOOP" not in answer
    assert answer.count("answer") == 1 + 8 + 24


async def test_a_sub_agent_that_does_not_answer_is_given_up_at_its_limit() -> None:
    class Silent(ScriptedModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            await asyncio.Event().wait()
            raise AssertionError

    @tool
    async def ask(task: str = "") -> str:
        """Asks."""
        with pytest.raises(DeadlineExceeded, match=r"the sub-agent poet gave no answer within 0\.05 s"):
            await call_sub_agent("poet", "?")
        return "given up"

    poet = Agent("poet", model=Silent())
    lead = Agent("lead", model=Asking(), sub_agents=[poet], tools=[ask], subagent_timeout=0.05)
    answer = await lead.run_async("?")
    assert "given up" in answer
    assert "DEADLINE_EXCEEDED" in answer
    assert (await Agent("other", model=Asking(), sub_agents=[Agent("poet", model=Asking())]).run_async("?")) == (
        "answer | answer"
    )


async def test_a_session_that_the_caller_has_open_is_not_waited_for() -> None:
    sessions = SessionManager("memory")
    try:
        inner = Agent("poet", model=Asking(), session_manager=sessions, user_id="u", session_id="s")
        middle = Agent("middle", model=Asking(), sub_agents=[inner])
        outer = Agent(
            "poet", model=Asking(), sub_agents=[middle], session_manager=sessions, user_id="u", session_id="s"
        )
        async with asyncio.timeout(20):
            assert "DELEGATION_LOOP" in await outer.run_async("?")
    finally:
        await sessions.close()


async def test_a_slot_that_was_just_freed_is_no_reason_to_refuse_a_wait() -> None:
    slots, order, free = CallSlots("it"), list[int](), asyncio.Event()

    async def call(number: int) -> None:
        async with slots.taken():
            order.append(number)
            await free.wait()

    calls = [asyncio.create_task(call(number)) for number in range(3)]
    await run_ready_tasks()
    free.set()
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.gather(*calls, call(3))  # the slot is free, and belongs to the first of those that wait
    assert order == [0, 1, 2, 3]


async def test_a_wait_that_is_cancelled_leaves_no_trace() -> None:
    slots = CallSlots("it")
    async with slots.taken():
        waiting = asyncio.create_task(slots.taken().__aenter__())
        await run_ready_tasks()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        with pytest.raises(FailedPrecondition, match="it is in use by a call that waits for this one"):
            async with slots.taken():
                pass
    async with asyncio.timeout(5), slots.taken():
        pass
