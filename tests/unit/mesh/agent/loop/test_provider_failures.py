"""An agent whose model endpoint fails, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from archon_mesh.agent import Agent
from archon_mesh.agent.events.types import AgentEvent
from archon_mesh.llm import retry
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk

BUSY = Answer({"error": {"message": "try later"}}, status=503)
LIMITED = Answer({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0"})
CUT = Answer(events=[chunk({"content": "half an"})], end="cut")
DONE = [chunk({"content": "whole"}), chunk({}, "stop")]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.001)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture
async def agent(server: OpenAIServer) -> AsyncIterator[Agent]:
    model = OpenAIModel("some-model", base_url=server.url, api_key="secret-0123456789")
    yield Agent("a", model=model)
    await model.close()


@pytest.mark.parametrize("failure", [BUSY, LIMITED, Answer("<html>", status=502)])
async def test_one_failed_call_fails_no_run(server: OpenAIServer, agent: Agent, failure: Answer) -> None:
    server.script(failure, failure, failure, Answer(events=DONE))
    assert await agent.run_async("?") == "whole"
    assert len(server.received) == 4


async def test_a_stream_that_is_cut_off_fails_no_run(server: OpenAIServer, agent: Agent) -> None:
    events: list[AgentEvent] = []
    server.script(CUT, BUSY, Answer(events=DONE))
    assert await agent.run_async("?", None, [events.append]) == "whole"
    assert len(server.received) == 3


async def test_an_endpoint_that_refuses_connections_for_a_moment_fails_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BASE", 0.2)
    async with OpenAIServer() as earlier:
        url = earlier.url
    model = OpenAIModel("some-model", base_url=url, api_key="secret-0123456789")
    running = asyncio.create_task(Agent("a", model=model, retries=50).run_async("hello"))
    await asyncio.sleep(0)
    async with OpenAIServer(port=int(url.rpartition(":")[2].partition("/")[0])):
        async with asyncio.timeout(30):
            assert "hello" in await running
    await model.close()
