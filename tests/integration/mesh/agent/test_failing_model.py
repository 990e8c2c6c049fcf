"""64 concurrent runs with a model and tools that fail at random in every way: each ends with an answer or a typed error,
in process and in a mesh."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from archon.agent import AgentSettings
from archon.client import Client, answer_text
from archon.errors import ArchonError
from archon.types import Budget, Run, TaskState
from archon_mesh.agent import Agent, BudgetMiddleware, HistoryList
from archon_mesh.llm import retry
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.node import Role, agent_server
from archon_mesh.tools import breaker, tool
from archon_services.orchestrator.app import orchestrator_app
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings
from tests.fixtures.failing_model import FailingModel
from tests.fixtures.openai_server import OpenAIServer
from tests.fixtures.waiting import eventually, until

RUNS = 32
BUDGET = 3_000
MAX_TOKENS = 200
PATIENCE = 90.0
"""Seconds: far more than any run may take."""

LOCAL: dict[str, Any] = {"host": "127.0.0.1", "port": 0}


class Outage:
    """A service that a tool calls."""

    down = True


@tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def fetch(page: int) -> str:
    """Reads a page of a service that is down at times."""
    if Outage.down:
        raise ConnectionError("connection refused")
    return f"page {page}"


@tool
def crash() -> str:
    """Crashes."""
    raise RuntimeError("out of order")


@tool(timeout=0.2)
async def hang() -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return ""


@tool
def shout() -> str:
    """Returns 5 MB."""
    return "x" * 5_000_000


TOOLS = [add, fetch, crash, hang, shout]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2},
    "fetch": {"page": 1},
    "crash": {},
    "hang": {},
    "shout": {},
}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)
    monkeypatch.setattr(breaker, "OPEN_SECONDS", 0.1)
    monkeypatch.setattr(Outage, "down", True)


@pytest.fixture
def model() -> FailingModel:
    return FailingModel(random.Random(7), ARGUMENTS)


@pytest.fixture
async def agent(model: FailingModel) -> AsyncIterator[Agent]:
    async with OpenAIServer(answer=model.answer) as server:
        client = OpenAIModel("some-model", base_url=server.url, api_key="secret-0123456789")
        agent = Agent(
            "clerk",
            system_prompt="You calculate.",
            model=client,
            tools=TOOLS,
            max_tokens=MAX_TOKENS,
            timeout=6.0,
            idle_timeout=3.0,
            retries=2,
        )
        yield agent
        await client.close()


async def run(agent: Agent[str], query: str) -> str | BaseException:
    fork = agent.forked()
    fork.history = HistoryList(agent_name=agent.name)
    fork.use(BudgetMiddleware(max_tokens=BUDGET))
    try:
        return await fork.run_async(query)
    except Exception as error:  # noqa: BLE001 - the test says which errors are right
        return error


@pytest.mark.search
async def test_each_run_ends_with_an_answer_or_a_typed_error(agent: Agent, model: FailingModel) -> None:
    async with asyncio.timeout(PATIENCE):
        opens = asyncio.create_task(until(lambda: agent.engine.health()["fetch"].breaker == "open", PATIENCE))
        outcomes: list[str | BaseException] = []

        async def run_all() -> None:
            began = len(outcomes)
            outcomes.extend(await asyncio.gather(*(run(agent, f"run {began + number}") for number in range(RUNS))))

        while not opens.done():  # a loaded machine may end most runs by their time before they call the tool
            await run_all()
        Outage.down = False
        await run_all()
    untyped = [outcome for outcome in outcomes if not isinstance(outcome, str | ArchonError)]
    assert untyped == []
    assert all(outcome for outcome in outcomes if isinstance(outcome, str)), "no empty answer"
    assert len({outcome.kind for outcome in outcomes if isinstance(outcome, ArchonError)}) >= 3
    assert sum(isinstance(outcome, str) for outcome in outcomes) > RUNS
    assert agent.engine.health()["fetch"].breaker == "closed", "it closes once the service is back"
    assert len(model.kinds) == 14, f"every kind of answer was given: {model.kinds}"
    # The reservation of one call is at most the prompt, which is within the budget, and the longest reply.
    overspent = {query: spent for query, spent in model.tokens.items() if spent > BUDGET + MAX_TOKENS}
    assert overspent == {}

    async def ended() -> bool:
        return not any(task.get_name().startswith("model ") for task in asyncio.all_tasks())

    await eventually(ended)


@pytest.mark.search
async def test_each_run_of_a_mesh_ends_in_a_final_state(agent: Agent, model: FailingModel) -> None:
    Outage.down = False
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(registry_app(RegistrySettings(etcd="memory", **LOCAL)))
        settings = OrchestratorSettings(journal="memory", registry=registry, **LOCAL)
        orchestrator = await stack.enter_async_context(orchestrator_app(settings))
        role = Role("clerk", "You calculate.", max_tasks=RUNS)
        await stack.enter_async_context(agent_server(role, agent, AgentSettings(registry=registry, **LOCAL)))
        client = await stack.enter_async_context(Client(orchestrator))
        budget = Budget(max_tokens=BUDGET)

        async def submit(number: int) -> Run:
            return (await client.submit(f"run {number}", roles=["clerk"], budget=budget, wait=PATIENCE)).run

        async with asyncio.timeout(PATIENCE):
            runs = await asyncio.gather(*(submit(number) for number in range(RUNS)))
    completed = [run for run in runs if run.state is TaskState.COMPLETED]
    failed = [run for run in runs if run.state is TaskState.FAILED]
    assert len(completed) + len(failed) == RUNS
    assert all(answer_text(run) for run in completed)
    assert all(run.failure is not None and run.failure.kind for run in failed)
    assert failed, "the test is worth something"
    spent = [run.usage.input_tokens + run.usage.output_tokens for run in runs]
    assert max(spent) <= BUDGET + MAX_TOKENS
