"""Estimates of tokens follow what providers report."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from archon.errors import BudgetExhausted
from archon_mesh.agent import Agent, BudgetMiddleware, ContextCompactionMiddleware
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, TextToolModel, Usage
from archon_mesh.llm.base import FILE_TOKENS, IMAGE_TOKENS, estimate_input
from archon_mesh.llm.calibration import HIGHEST, LOWEST, WINDOW, Calibration, calibrated_input
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.media import PDF, PNG
from tests.fixtures.openai_server import Answer, OpenAIServer, completion

REQUEST = ModelRequest([ChatMessage("user", "x" * 4_000)], timeout=10)


def reply(tokens: int, *, estimated: bool = False) -> ModelReply:
    return ModelReply("ok", (), Usage(tokens, 1, estimated), "m", "stop")


def answer(tokens: int) -> Answer:
    return Answer(completion({"content": "ok"}, usage={"prompt_tokens": tokens, "completion_tokens": 1}))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture
async def model(server: OpenAIServer) -> AsyncIterator[OpenAIModel]:
    """A model that reads twice the tokens that are estimated, after the calls that tell."""
    model = OpenAIModel("some-model", base_url=server.url)
    server.script(*[answer(2_000)] * 3)
    for _ in range(3):
        await model.generate(REQUEST)
    yield model
    await model.close()


def test_estimates_follow_the_model_after_three_calls() -> None:
    calibration = Calibration()
    assert calibration.factor == 1.0
    for _ in range(3):
        calibration.observe(REQUEST, reply(1_500))
    assert calibration.factor == 1.5


def test_a_single_odd_call_changes_little() -> None:
    calibration = Calibration()
    for tokens in (1_500, 1_400, 1_600, 40_000, 1_500):
        calibration.observe(REQUEST, reply(tokens))
    assert calibration.factor == 1.5


@pytest.mark.parametrize(("tokens", "factor"), [(1_000_000, HIGHEST), (1, LOWEST)])
def test_the_factor_is_bounded(tokens: int, factor: float) -> None:
    calibration = Calibration()
    for _ in range(WINDOW):
        calibration.observe(REQUEST, reply(tokens))
    assert calibration.factor == factor


def test_estimated_empty_and_short_calls_do_not_count() -> None:
    calibration = Calibration()
    calibration.observe(REQUEST, reply(3_000, estimated=True))
    calibration.observe(REQUEST, reply(0))
    calibration.observe(ModelRequest([ChatMessage("user", "x" * 396)]), reply(3_000))
    assert calibration.factor == 1.0


def test_the_newest_calls_count() -> None:
    calibration = Calibration()
    for tokens in (*[3_000] * 40, *[2_000] * WINDOW):
        calibration.observe(REQUEST, reply(tokens))
    assert calibration.factor == 2.0


async def test_a_client_is_calibrated_by_its_own_calls(model: OpenAIModel) -> None:
    assert calibrated_input(model, REQUEST) == 2_000
    assert calibrated_input(TextToolModel(model), REQUEST) == 2_000
    assert calibrated_input(ScriptedModel(["x"]), REQUEST) == 1_000


async def test_compaction_begins_at_calibrated_tokens(model: OpenAIModel, server: OpenAIServer) -> None:
    compaction = ContextCompactionMiddleware(max_context_tokens=1_000, threshold=1.0, window_size=1)
    agent = Agent("a", model=model, middlewares=[compaction])
    await agent.run_async("x" * 1_200)
    await agent.run_async("y" * 1_200)
    # 600 estimated tokens of both queries are 1,200 of this model.
    assert [message["content"][:1] for message in server.received[-1].body["messages"]] == ["y"]


async def test_a_budget_reserves_calibrated_tokens(model: OpenAIModel) -> None:
    agent = Agent("a", model=model, max_tokens=10, middlewares=[BudgetMiddleware(max_tokens=1_500)])
    with pytest.raises(BudgetExhausted, match="2,010 needed"):
        await agent.run_async("x" * 4_000)


def test_the_bytes_of_a_file_are_no_tokens() -> None:
    def estimated(*files: Media) -> int:
        return estimate_input(ModelRequest([ChatMessage("user", "Look.", files=files)])) - 2

    assert estimated(Media(PNG + bytes(5_000_000), "image/png")) == IMAGE_TOKENS
    assert estimated(Media.at("https://x.org/a.png", "image/png")) == IMAGE_TOKENS
    assert estimated(Media(PDF)) == FILE_TOKENS[0]
    assert estimated(Media(PDF + bytes(100_000))) == 2_000
    assert estimated(Media(PDF + bytes(9_000_000))) == FILE_TOKENS[1]
    assert estimated(Media(b"a" * 400, "text/csv")) == 100


def test_requests_with_files_calibrate_nothing() -> None:
    calibration = Calibration()
    request = ModelRequest([ChatMessage("user", "x" * 4_000, files=[Media(PNG)])])
    for _ in range(WINDOW):
        calibration.observe(request, ModelReply("a", (), Usage(9_000, 1), "m", "stop"))
    assert calibration.factor == 1.0
