"""Model clients, agents, plans and files over a real small model: its replies are real, and often wrong. What holds: each
call ends with an answer or a typed failure, nothing hangs, and usage is the server's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from archon.errors import ArchonError, DeadlineExceeded, InvalidArgument
from archon_mesh.agent import Agent, ContextCompactionMiddleware, ReplyCut
from archon_mesh.core.messages import ChatMessage
from archon_mesh.declared import load_agent
from archon_mesh.llm import ModelClient, ModelReply, ModelRequest, deadline
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.text_format.text_tool_model import TextToolModel
from archon_mesh.planning import Planner
from archon_mesh.tools import tool
from tests.fixtures.waiting import eventually
from tests.real_model.result import outcome
from tests.real_model.server import CONTEXT, SLOTS, RealModel

pytestmark = pytest.mark.slow

LONG = "Write a long story about a ship, with many chapters."
WORDS = "The harbour was quiet and the ship lay at anchor. "


def client(server: RealModel) -> OpenAIModel:
    return OpenAIModel("smollm2", base_url=server.url, server="llamacpp")


def request(text: str, **fields: object) -> ModelRequest:
    return ModelRequest([ChatMessage("user", text)], temperature=0.0, **fields)  # type: ignore[arg-type]


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


async def test_a_stream_and_a_whole_reply_have_the_same_text_and_the_usage_of_the_server(
    real_model: RealModel,
) -> None:
    model = client(real_model)
    asked = request("Say hello in five words.", max_tokens=24)
    whole = await model.generate(asked)
    pieces = [piece async for piece in model.stream(asked)]
    await model.close()
    streamed = pieces[-1].reply
    assert streamed is not None
    assert whole.text
    assert "".join(piece.text_delta for piece in pieces) == streamed.text == whole.text
    assert not whole.usage.estimated
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (
        streamed.usage.input_tokens,
        streamed.usage.output_tokens,
    )
    assert whole.finish_reason == streamed.finish_reason


async def test_a_reply_that_is_cut_says_so(real_model: RealModel) -> None:
    model = client(real_model)
    reply = await model.generate(request(LONG, max_tokens=8))
    await model.close()
    assert (reply.finish_reason, reply.usage.output_tokens) == ("length", 8)


@pytest.mark.search
async def test_four_calls_at_once_are_all_answered(real_model: RealModel) -> None:
    model = client(real_model)
    replies = await asyncio.gather(
        *(model.generate(request(f"Count from {n} to five.", max_tokens=16)) for n in range(SLOTS))
    )
    await model.close()
    assert all(reply.text and not reply.usage.estimated for reply in replies)


async def test_the_server_stops_when_a_call_is_cancelled(real_model: RealModel) -> None:
    model = client(real_model)

    async def read() -> None:
        async for _ in model.stream(request(LONG, max_tokens=900)):
            begun.set()

    begun = asyncio.Event()
    reading = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), 60)
    assert await asyncio.to_thread(real_model.busy) == 1
    reading.cancel()
    await asyncio.wait([reading], timeout=30)

    async def is_idle() -> bool:
        return await asyncio.to_thread(real_model.busy) == 0

    await eventually(is_idle, within=30)
    await model.close()


@pytest.mark.search
async def test_a_prompt_that_is_too_long_is_an_overflow_and_compaction_helps(real_model: RealModel) -> None:
    model = client(real_model)
    with pytest.raises(InvalidArgument) as caught:
        await model.generate(request(WORDS * (CONTEXT // 5)))
    assert caught.value.kind == "model.context_overflow"
    messages = [ChatMessage("user", WORDS * 30), ChatMessage("assistant", "I see.")] * 8
    agent = Agent("a", model=model, max_tokens=16, middlewares=[ContextCompactionMiddleware()])
    answer = await outcome(agent.run_async([*messages, ChatMessage("user", "Say yes.")]))
    await model.close()
    # A small model may write on and on: its reply is cut, but it could reply.
    assert isinstance(answer, (str, ReplyCut)) or answer.kind == "model.context_overflow", answer


@pytest.mark.search
async def test_a_slow_prompt_has_the_time_before_the_first_token(real_model: RealModel) -> None:
    model = client(real_model)
    slow = request(WORDS * 30 + "What is at anchor?", max_tokens=4, idle_timeout=0.05, first_token_timeout=120)
    try:
        reply: ModelReply | ArchonError = await deadline.generate(model, slow)
    except DeadlineExceeded as error:  # the machine is slow between tokens too: the first one was there
        reply = error
    assert isinstance(reply, ModelReply) or "idle_timeout" in str(reply)
    with pytest.raises(DeadlineExceeded, match="first_token_timeout"):
        await deadline.generate(model, request(WORDS * 40 + "Who?", first_token_timeout=0.05))

    async def is_idle() -> bool:
        return await asyncio.to_thread(real_model.busy) == 0

    await eventually(is_idle, within=60)
    await model.close()


@pytest.mark.parametrize("text_format", [False, True], ids=["function calls", "text format"])
async def test_an_agent_with_a_tool_ends_with_an_answer_or_a_typed_failure(
    real_model: RealModel, text_format: bool
) -> None:
    model: ModelClient = client(real_model)
    if text_format:
        model = TextToolModel(model)
    agent = Agent("a", model=model, tools=[add], max_tokens=24, max_iterations=2)
    await outcome(agent.run_async("What is 2 plus 3? Use the tool `add`."))
    await model.close()


@pytest.mark.search
async def test_the_planner_makes_a_plan_or_says_why_not(real_model: RealModel) -> None:
    model = client(real_model)
    planner = Planner(model, roles={"writer": "writes texts", "critic": "finds mistakes"}, timeout=10)

    async def named() -> str:
        plan = await planner.create_plan("Write a note about ships and have it criticised.")
        return ", ".join(subtask.id for subtask in plan.subtasks)

    await outcome(named())
    await model.close()


async def test_an_agent_of_a_file_asks_the_real_model(
    real_model: RealModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", real_model.url)
    file = tmp_path / "clerk.yaml"
    file.write_text(
        "name: clerk\ndescription: Answers in one word.\nmax_tokens: 16\nmax_iterations: 2\n"
        "model: {use: openai/smollm2, server: llamacpp}\ntools: ['archon_mesh.tools.builtin:Calculator']\n"
    )
    agent = load_agent(file, environment={}).agent
    await outcome(agent.run_async("Say yes."))
    await agent.close()


class City(BaseModel):
    name: str = Field(max_length=40)
    country: str = Field(max_length=40)
    size: Literal["small", "big"]


@pytest.mark.search
async def test_enforced_answer_is_an_object_of_its_type(real_model: RealModel) -> None:
    model = client(real_model)
    agent = Agent("a", model=model, output=City, max_tokens=100, temperature=0.0)
    city = await agent.run_async("Describe the city Rome.")
    await model.close()
    assert isinstance(city, City)
    assert len(agent.history) == 2


@pytest.mark.search
@pytest.mark.parametrize("server", ["llamacpp", "tgi"])
async def test_typed_answer_besides_tools_ends_with_an_object_or_a_failure(real_model: RealModel, server: str) -> None:
    model = OpenAIModel("smollm2", base_url=real_model.url, server=server)
    agent = Agent("a", model=model, output=City, tools=[add], max_tokens=100, max_iterations=2, temperature=0.0)

    async def text() -> str:
        return str(await agent.run_async("Describe the city Rome."))

    await outcome(text())
    await model.close()
