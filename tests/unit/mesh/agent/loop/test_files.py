"""Files of a query and of tool results in the run of an agent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.agent import Agent, ContextCompactionMiddleware, HookContext, Middleware, Outcome, go_on
from archon_mesh.agent.hooks.span_content import input_messages
from archon_mesh.agent.loop import old_files
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel
from archon_mesh.llm.chunks import stream_reply
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.scripted import _as_reply
from archon_mesh.llm.wrappers import CachedModel, FallbackModel, RecordingModel, ReplayModel
from archon_mesh.tools import Image, tool
from tests.fixtures.media import JPEG, PNG
from tests.fixtures.openai_server import OpenAIServer

IMAGE = Media(PNG, "image/png", name="a.png")
QUERY = [ChatMessage("user", "What is this?", files=[IMAGE])]
LABEL = f"[image/png, {len(PNG)} bytes]"


class TextModel:
    """A client that knows nothing of files."""

    model = "plain"

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        return _as_reply(request, self._replies.pop(0))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        async for chunk in stream_reply(await self.generate(request)):
            yield chunk

    async def close(self) -> None:
        pass


@tool
def photograph(place: str) -> Image:
    """Takes a picture."""
    return Image(PNG)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


async def test_the_model_sees_the_files_of_a_query_and_of_results() -> None:
    model = ScriptedModel([ToolCall("1", "photograph", '{"place": "here"}'), "a dot"])
    assert await Agent("a", model=model, tools=[photograph]).run_async(QUERY) == "a dot"
    query, _, result = model.requests[-1].messages
    assert query.files == (IMAGE,)
    assert (result.content, result.files) == (LABEL, (Media(PNG, "image/png"),))


async def test_a_client_that_knows_no_files_gets_no_query_with_one() -> None:
    model = TextModel()
    with pytest.raises(InvalidArgument, match="the model plain does not take the file"):
        await Agent("a", model=model).run_async(QUERY)
    assert model.requests == []


async def test_a_client_that_knows_no_files_gets_the_labels_of_results() -> None:
    model = TextModel(ToolCall("1", "photograph", '{"place": "here"}'), "a dot")
    await Agent("a", model=model, tools=[photograph]).run_async("Look.")
    result = model.requests[-1].messages[-1]
    assert result.files == () and result.content.startswith(f"{LABEL}\n\nThe file {LABEL} is not shown to you")


@pytest.mark.parametrize("chain", [True, False], ids=["chain", "fallback"])
async def test_a_fallback_that_takes_no_files_is_a_typed_error(chain: bool) -> None:
    first, second = ScriptedModel([Unavailable("down")]), TextModel("I see nothing.")
    if chain:
        agent = Agent("a", model=FallbackModel([first, second]), retries=0)
    else:
        agent = Agent("a", model=first, fallback_model=second, retries=0)
    with pytest.raises(InvalidArgument, match="the model plain does not take the file"):
        await agent.run_async(QUERY)
    assert second.requests == []


async def test_a_hook_that_rewrites_the_query_keeps_its_files() -> None:
    class Shorter(Middleware):
        def query_start(self, hook: HookContext) -> Outcome:
            return go_on("What?")

    model = ScriptedModel(["a dot"])
    await Agent("a", model=model, middlewares=[Shorter()]).run_async(QUERY)
    assert model.requests[0].messages[-1] == ChatMessage("user", "What?", files=[IMAGE])


async def test_requests_with_files_begin_as_the_one_before(server: OpenAIServer) -> None:
    from tests.fixtures.openai_server import Answer, chunk

    calls = [
        {"index": 0, "id": f"c{n}", "function": {"name": "photograph", "arguments": f'{{"place": "{n}"}}'}}
        for n in range(3)
    ]
    server.script(*(Answer(events=[chunk({"tool_calls": [call]}), chunk(finish="tool_calls")]) for call in calls))
    model = OpenAIModel("m", base_url=server.url, server={"media": ["image"]})
    await Agent("a", system_prompt="Be brief.", model=model, tools=[photograph]).run_async(QUERY)
    await model.close()
    bodies = [received.body["messages"] for received in server.received]
    assert len(bodies) == 4
    for before, after in pairwise(bodies):
        assert after[: len(before)] == before
    assert len(str(bodies[-1]).split("image_url': {'url'")) == 5, "the query's image and those of three results"


async def test_pictures_of_one_size_are_not_the_same_result() -> None:
    shots = iter(bytes([number]) for number in range(9))

    @tool
    def shot() -> Image:
        """Takes a picture of the screen."""
        return Image(PNG + next(shots))

    model = ScriptedModel([*(ToolCall(str(number), "shot", "{}") for number in range(5)), "done"])
    assert await Agent("a", model=model, tools=[shot]).run_async("Watch.") == "done"
    assert all(len(message.files) == 1 for message in model.requests[-1].messages if message.role == "tool")


async def test_a_summary_names_the_files_of_what_it_replaces() -> None:
    model = ScriptedModel(["a dot", "A dot was shown.", "a line"])
    compaction = ContextCompactionMiddleware(compaction_strategy="summarisation", window_size=1, max_context_tokens=500)
    agent = Agent("a", model=model, middlewares=[compaction])
    await agent.run_async(QUERY)
    await agent.run_async("And now? " + "x" * 2_000)
    asked, answered = model.requests[1].messages[0], model.requests[2].messages[0]
    assert f"user: What is this?\n{IMAGE.label}" in asked.content and asked.files == ()
    assert f"[Files of earlier messages, left out: {IMAGE.label}]" in answered.content


async def test_another_file_is_another_request_for_cache_and_cassette(tmp_path: Any) -> None:
    other = [ChatMessage("user", "What is this?", files=[Media(JPEG, "image/jpeg", name="a.png")])]
    model = ScriptedModel(["a dot", "a line"])
    cached = CachedModel(model, always=True)
    answers = [await Agent("a", model=cached).run_async(query) for query in (QUERY, other, QUERY)]
    assert answers == ["a dot", "a line", "a dot"]
    recording = RecordingModel(ScriptedModel(["a dot"]), tmp_path / "c.jsonl")
    await Agent("a", model=recording).run_async(QUERY)
    assert "iVBOR" not in (tmp_path / "c.jsonl").read_text(), "a cassette has no bytes of files"
    replay = ReplayModel(tmp_path / "c.jsonl")
    assert await Agent("a", model=replay).run_async(QUERY) == "a dot"
    with pytest.raises(Exception, match="no such request"):
        await Agent("a", model=replay).run_async(other)


async def test_old_files_of_a_history_become_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_files, "MAX_KEPT", 4 * len(PNG))
    calls = [ToolCall(str(number), "photograph", f'{{"place": "{number}"}}') for number in range(6)]
    agent = Agent("a", model=ScriptedModel([*calls, "done", "again"]), tools=[photograph])
    await agent.run_async(QUERY)
    shown = [len(message.files) for message in agent.history if message.files or message.role in ("user", "tool")]
    assert shown[0] == 1, "the query keeps its file"
    assert sum(shown) <= 4 and shown[-1] == 1
    assert all(LABEL in message.content for message in agent.history if message.role == "tool")
    await agent.run_async([ChatMessage("user", "And this?", files=[IMAGE, IMAGE, IMAGE])])
    assert [len(message.files) for message in agent.history if message.role == "user"] == [0, 3]


def test_spans_have_labels_in_place_of_files() -> None:
    messages = [*QUERY, ChatMessage("tool", LABEL, tool_call_id="1", files=[Media(PNG, "image/png")])]
    query, result = json.loads(input_messages(messages))
    assert query["parts"] == [{"type": "text", "content": f"What is this?\n{IMAGE.label}"}]
    assert result["parts"][0]["response"] == LABEL
