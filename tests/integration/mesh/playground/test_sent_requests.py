"""The request of a recorded call as its provider received it, over real HTTP, and the command that repeats it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping

import pytest

from archon.errors import FailedPrecondition
from archon_mesh.agent import Agent
from archon_mesh.llm import ModelSpec, create_model
from archon_mesh.node.sent_record import public_url
from archon_mesh.playground import curl_command, recorded_calls, sent_bytes, sent_request
from archon_mesh.tools import FunctionTool
from tests.fixtures.anthropic_server import AnthropicServer, start, stop, text, tool_use
from tests.fixtures.media import PNG
from tests.fixtures.openai_server import Answer, OpenAIServer, completion
from tests.fixtures.recorded_calls import model_record, record_calls
from tests.fixtures.require import require
from tests.fixtures.responses_server import ResponsesServer

KEY = "sk-a-key-that-no-record-has"
PROMPT = 'You\'re a "designer": `id`, $HOME, $(id), !! and a back\\slash.\n' * 3
GOAL = "Draw a door; it's blue 🚪 @/etc/passwd"
SERVERS: Mapping[str, type[OpenAIServer]] = {
    "openai/m": OpenAIServer,
    "openai-responses/m": ResponsesServer,
    "anthropic/m": AnthropicServer,
    "text/openai/m": OpenAIServer,
}


def login(user: str, password: str) -> str:
    """Logs in."""
    return f"{user} is logged in"


def look(place_to_look_at: str) -> str:
    """Looks at a place."""
    return f"nothing at {place_to_look_at}"


def base_url(server: OpenAIServer, model: str) -> str:
    return server.url.removesuffix("/v1") if model.startswith("anthropic") else server.url


async def bash(command: str, **environment: str) -> tuple[int, str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", command, stdout=-1, stderr=-1, env={**clean, **environment, "http_proxy": "http://127.0.0.1:9"}
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize("model", SERVERS)
async def test_the_recorded_request_is_the_bytes_that_were_sent(model: str) -> None:
    async with SERVERS[model]() as server:
        client = create_model(model, base_url=base_url(server, model), api_key=KEY)
        async with Agent("designer", system_prompt=PROMPT, model=client, tools=[FunctionTool(look)]) as agent:
            records = await record_calls(agent, GOAL, "The door is blue. " * 9)
        received = list(server.received)
        (call, *_) = recorded_calls(records)
        assert sent_bytes(call) == received[0].content and GOAL in received[0].content.decode()
        assert call.model == model.removeprefix("text/")
        assert KEY not in "".join(record.request_json for record in records)
        assert len(json.dumps(call.sent)) < len(received[0].content), "the body is packed against the messages"
        require("curl")
        command = curl_command(call)
        variable = "ANTHROPIC_API_KEY" if model.startswith("anthropic") else "OPENAI_API_KEY"
        assert KEY not in command
        code, out, err = await bash(command, **{variable: KEY})
        assert code == 0 and out, err
        assert server.received[-1].content == received[0].content
        assert server.received[-1].path == received[0].path
        assert server.received[-1].headers["authorization"] == f"Bearer {KEY}"
        count = len(server.received)
        code, _, err = await bash(command)
        assert code and variable in err and len(server.received) == count, "without the key nothing is sent"


async def test_a_request_with_a_secret_argument_is_not_recorded() -> None:
    async with AnthropicServer() as server:
        server.script(
            Answer(events=[start(), *tool_use(0, "c1", "login", '{"user": "ann", "password": "hush"}'), *stop()]),
            Answer(events=[start(), *text(0, "Done."), *stop()]),
        )
        client = create_model("anthropic/m", base_url=base_url(server, "anthropic"), api_key=KEY)
        async with Agent("designer", model=client, tools=[FunctionTool(login)]) as agent:
            records = await record_calls(agent, "Log ann in.")
        assert b"hush" in server.received[1].content
    texts = "".join(record.request_json + record.response_json for record in records if record.kind == "model")
    assert "hush" not in texts and "***" in texts
    first, second = recorded_calls(records)
    assert sent_bytes(first) == server.received[0].content
    with pytest.raises(FailedPrecondition, match="secrets, which are not recorded"):
        curl_command(second)
    assert "sha256" not in second.sent, "a hash would let a short secret be guessed"


async def test_the_contents_of_files_are_not_recorded() -> None:
    async with OpenAIServer() as server:
        spec = ModelSpec("openai/m", server={"media": ["image"]})
        client = create_model(spec, base_url=server.url, api_key=KEY)
        async with Agent("designer", model=client) as agent:
            (record,) = await record_calls(agent, "What is it?", file=PNG)
    assert b"image_url" in server.received[0].content
    (call,) = recorded_calls([record])
    assert call.sent["files"] and "body" not in call.sent and "sha256" not in call.sent
    with pytest.raises(FailedPrecondition, match="had files, whose contents are not recorded"):
        curl_command(call)
    with pytest.raises(FailedPrecondition, match="whose contents are not recorded"):
        _ = call.request


async def test_redacted_records_have_neither_body_nor_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_RECORDS", "redacted")
    async with OpenAIServer() as server:
        client = create_model("openai/m", base_url=server.url, api_key=KEY)
        async with Agent("designer", system_prompt=PROMPT, model=client) as agent:
            records = await record_calls(agent, GOAL)
    (call,) = recorded_calls(records)
    assert set(call.sent) == {"api", "has_key", "bytes"}
    with pytest.raises(FailedPrecondition, match="were not recorded"):
        sent_bytes(call)


async def test_a_call_of_no_provider_has_no_request() -> None:
    async with Agent("designer", model=create_model("offline")) as agent:
        (call,) = recorded_calls(await record_calls(agent, GOAL))
    assert call.model == "offline"
    with pytest.raises(FailedPrecondition, match=r"designer, call 1 of 1 was sent over HTTP.*model offline"):
        sent_bytes(call)


async def test_a_changed_record_is_refused() -> None:
    async with OpenAIServer() as server:
        server.script(Answer(completion({"content": "a door"})))
        client = create_model("openai/m", base_url=server.url, api_key=KEY)
        async with Agent("designer", system_prompt=PROMPT, model=client) as agent:
            (record,) = await record_calls(agent, GOAL)
    record.proto.request_json = record.request_json.replace("blue", "grey")
    (call,) = recorded_calls([record])
    with pytest.raises(FailedPrecondition, match="SHA-256 differs"):
        sent_bytes(call)


def test_a_record_that_repeats_a_part_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_request, "MAX_BODY", 1024**2)
    sent = {"api": "openai", "body": {"messages": [{"$": ["messages", 0, "content"]}] * 10_000}, "sha256": ""}
    record = model_record({"role": "user", "content": "x" * 10_000}, sent=sent)
    with pytest.raises(FailedPrecondition, match="more than 1 MiB"):
        sent_bytes(recorded_calls([record])[0])


def test_an_address_is_recorded_without_its_secrets() -> None:
    url = "https://ann:pass@host:8443/v1/chat?api-version=2026-01-01&sig=abc"
    assert public_url(url) == "https://host:8443/v1/chat?api-version=2026-01-01&sig=***"
