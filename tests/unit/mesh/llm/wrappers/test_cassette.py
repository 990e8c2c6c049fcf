"""Recording and replaying the calls of a model."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from archon.errors import InvalidArgument, NotFound, ResourceExhausted, Unavailable
from archon_mesh.agent import Agent
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ScriptedModel, Usage
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.wrappers import RecordingModel, ReplayModel, cassette
from archon_mesh.tools import tool
from tests.fixtures.openai_server import USAGE, Answer, OpenAIServer, chunk

HELLO = ModelRequest([ChatMessage("user", "hello")])
CALL = ToolCall("1", "multiply", '{"a": 15, "b": 3}')


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies."""
    return a * b


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cassette.jsonl"


async def test_an_agent_replays_what_was_recorded(path: Path) -> None:
    inner = ScriptedModel([CALL, "It is 45."])
    agent = Agent("clerk", model=RecordingModel(inner, path), tools=[multiply])
    assert await agent.run_async("What is 15 * 3?") == "It is 45."
    agent = Agent("clerk", model=ReplayModel(path), tools=[multiply])
    assert await agent.run_async("What is 15 * 3?") == "It is 45."


async def test_a_replay_streams_thinking_text_calls_and_usage(path: Path) -> None:
    async with OpenAIServer() as server:
        part = {"index": 0, "id": "1", "function": {"name": "add", "arguments": "{}"}}
        events = [
            *(chunk({"reasoning": "hm"}), chunk({"content": "so"}), chunk({"tool_calls": [part]})),
            *(chunk(finish="tool_calls"), chunk(usage=USAGE)),
        ]
        server.script(Answer(events=events))
        model = RecordingModel(OpenAIModel("some-model", base_url=server.url, api_key="secret-key-1"), path)
        reply = await model.generate(HELLO)
        await model.close()
    replay = ReplayModel(path)
    chunks = [step async for step in replay.stream(HELLO)]
    assert chunks[-1].reply == replace(reply, provider_state=None) == await replay.generate(HELLO)
    assert "".join(step.thinking_delta for step in chunks) == "hm"
    assert "".join(step.text_delta for step in chunks) == "so"
    assert any(step.tool_call_delta for step in chunks)
    assert replay.model == "served-model"


async def test_the_same_request_gets_its_replies_in_order(path: Path) -> None:
    recording = RecordingModel(ScriptedModel(["a", "b"]), path)
    for _ in range(2):
        await recording.generate(HELLO)
    replay = ReplayModel(path)
    assert [(await replay.generate(replace(HELLO, timeout=1))).text for _ in range(3)] == ["a", "b", "b"]


async def test_an_unknown_request_shows_what_differs(path: Path) -> None:
    recording = RecordingModel(ScriptedModel(["a", "b"]), path)
    await recording.generate(ModelRequest([ChatMessage("system", "Add."), ChatMessage("user", "1 + 1")]))
    await recording.generate(ModelRequest([ChatMessage("user", "Tell me a joke.")]))
    with pytest.raises(NotFound) as caught:
        await ReplayModel(path).generate(ModelRequest([ChatMessage("system", "Add."), ChatMessage("user", "1 + 2")]))
    assert '-   "content": "1 + 1",' in str(caught.value)
    assert '+   "content": "1 + 2",' in str(caught.value)
    assert "joke" not in str(caught.value)


async def test_the_difference_is_bounded(path: Path) -> None:
    await RecordingModel(ScriptedModel(["a"]), path).generate(HELLO)
    many = ModelRequest([ChatMessage("user", "x" * 10_000) for _ in range(100)])
    with pytest.raises(NotFound) as caught:
        await ReplayModel(path).generate(many)
    assert len(str(caught.value)) < 10_000


async def test_failed_calls_are_not_recorded(path: Path) -> None:
    recording = RecordingModel(ScriptedModel([Unavailable("down"), "a"]), path)
    with pytest.raises(Unavailable):
        await recording.generate(HELLO)
    await recording.generate(HELLO)
    assert [(await ReplayModel(path).generate(HELLO)).text] == ["a"]


async def test_secrets_are_not_written_and_still_match(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "value-of-the-key")
    said = "keys: value-of-the-key, my-own-secret, sk-abcdefgh12345, Authorization: Bearer abc.def"
    reply = ModelReply(said, (ToolCall("1", "x", json.dumps({"k": said})),), Usage(1, 1), "m", "stop")
    request = ModelRequest([ChatMessage("user", said)])
    await RecordingModel(ScriptedModel([reply]), path, secrets=["my-own-secret"]).generate(request)
    text = await asyncio.to_thread(path.read_text)
    for secret in ("value-of-the-key", "my-own-secret", "sk-abcdefgh12345", "abc.def"):
        assert secret not in text
    assert text.count(cassette.REDACTED) == 12
    assert "my-own-secret" not in (await ReplayModel(path, secrets=["my-own-secret"]).generate(request)).text


async def test_texts_that_are_not_valid_unicode_survive(path: Path) -> None:
    request = ModelRequest([ChatMessage("user", "half a pair \ud83d, and ü\u2028")])
    await RecordingModel(ScriptedModel(["a"]), path).generate(request)
    assert (await ReplayModel(path).generate(request)).text == "a"


async def test_a_cassette_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archon_mesh.llm.wrappers.record.MAX_BYTES", 500)
    recording = RecordingModel(ScriptedModel(["a"] * 3), path)
    await recording.generate(HELLO)
    with pytest.raises(ResourceExhausted, match="500 bytes"):
        await recording.generate(HELLO)
    monkeypatch.setattr("archon_mesh.llm.wrappers.replay.MAX_BYTES", 10)
    with pytest.raises(InvalidArgument, match="more than 10 bytes"):
        ReplayModel(path)


@pytest.mark.parametrize("text", ["{", "[]", '{"request": {}}', '{"request": {}, "reply": {"text": 1}}'])
def test_a_malformed_cassette_is_refused_with_its_line(path: Path, text: str) -> None:
    path.write_text(f"\n{text}\n")
    with pytest.raises(InvalidArgument, match=r"cassette\.jsonl:2: not a line of a cassette"):
        ReplayModel(path)


async def test_a_missing_or_empty_cassette_is_reported(path: Path) -> None:
    with pytest.raises(NotFound, match="No such file"):
        ReplayModel(path)
    await asyncio.to_thread(path.touch)
    with pytest.raises(NotFound, match="it is empty"):
        await ReplayModel(path).generate(HELLO)
