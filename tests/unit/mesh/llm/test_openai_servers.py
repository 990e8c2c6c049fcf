"""The OpenAI client and the families of servers: what each gets, and what goes back to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelReply, ModelRequest, ModelSpec, ToolSpec, create_model
from archon_mesh.llm.kept_thinking import UNSIGNED
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk, completion

QUESTION = ChatMessage("user", "add")
REFERRING = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/A"}},
    "additionalProperties": False,
    "$defs": {"A": {"type": "integer", "exclusiveMinimum": 0}},
}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


def part(index: int, **fields: Any) -> dict[str, Any]:
    return {"index": index, "id": f"call_{index}", "function": {"name": "add", "arguments": "{}"}, **fields}


async def reply_of(server: OpenAIServer, family: str, *events: Any, whole: bool = False) -> ModelReply:
    model = OpenAIModel("m", base_url=server.url, server=family)
    server.script(Answer(body=completion(events[0])) if whole else Answer(events=[*events, chunk(finish="tool_calls")]))
    try:
        if whole:
            return await model.generate(ModelRequest([QUESTION]))
        chunks = [step async for step in model.stream(ModelRequest([QUESTION]))]
    finally:
        await model.close()
    reply = chunks[-1].reply
    assert reply is not None
    return reply


async def sent_back(server: OpenAIServer, family: str, reply: ModelReply) -> dict[str, Any]:
    """Returns the assistant's message of the next request, to a server of a family."""
    model = OpenAIModel("m", base_url=server.url, server=family)
    results = [ChatMessage("tool", "2", tool_call_id=call.id) for call in reply.tool_calls]
    await model.generate(ModelRequest([QUESTION, reply.message(), *results]))
    await model.close()
    message: dict[str, Any] = server.received[-1].body["messages"][1]
    return message


BLOCKS = [
    {"type": "reasoning.text", "index": 0, "text": "I "},
    {"type": "reasoning.text", "index": 0, "text": "add.", "signature": "s"},
    {"type": "reasoning.encrypted", "index": 1, "data": "x"},
]


@pytest.mark.parametrize(
    ("family", "field", "deltas", "expected"),
    [
        ("deepseek", "reasoning_content", [{"reasoning_content": "I "}, {"reasoning_content": "add."}], "I add."),
        ("groq", "reasoning", [{"reasoning": "I "}, {"reasoning": "add."}], "I add."),
        (
            "openrouter",
            "reasoning_details",
            [{"reasoning": "I ", "reasoning_details": [block]} for block in BLOCKS],
            [{"type": "reasoning.text", "index": 0, "text": "I add.", "signature": "s"}, BLOCKS[2]],
        ),
    ],
)
async def test_thinking_goes_back_in_the_field_of_its_family(
    server: OpenAIServer, family: str, field: str, deltas: list[dict[str, Any]], expected: object
) -> None:
    reply = await reply_of(server, family, *map(chunk, deltas), chunk({"tool_calls": [part(0)]}))
    back = await sent_back(server, family, reply)
    assert back[field] == expected
    assert not {"reasoning_content", "reasoning", "reasoning_details"} & (back.keys() - {field})


@pytest.mark.parametrize("whole", [True, False])
async def test_a_signature_goes_back_with_its_call(server: OpenAIServer, whole: bool) -> None:
    signed = {"google": {"thought_signature": "abc"}}
    calls = {"tool_calls": [part(0), part(1, extra_content=signed)]}
    reply = await reply_of(server, "gemini", {"role": "assistant", **calls} if whole else chunk(calls), whole=whole)
    back = await sent_back(server, "gemini", reply)
    assert [call.get("extra_content") for call in back["tool_calls"]] == [None, signed]


async def test_a_call_of_another_model_goes_to_gemini_with_the_mark_of_an_unsigned_one(server: OpenAIServer) -> None:
    reply = await reply_of(server, "deepseek", chunk({"reasoning_content": "hm", "tool_calls": [part(0), part(1)]}))
    back = await sent_back(server, "gemini", reply)
    assert "reasoning_content" not in back
    assert [call.get("extra_content") for call in back["tool_calls"]] == [UNSIGNED, None]


@pytest.mark.parametrize("family", ["deepseek", "moonshot"])
async def test_a_call_of_another_model_goes_to_deepseek_with_empty_thinking(server: OpenAIServer, family: str) -> None:
    """BerriAI/litellm#27946, openai/openai-agents-python#2155"""
    reply = await reply_of(server, "groq", chunk({"reasoning": "hm", "tool_calls": [part(0)]}))
    back = await sent_back(server, family, reply)
    assert back["reasoning_content"] == ""
    assert "reasoning" not in back


async def test_the_thinking_of_one_family_is_not_sent_to_another(server: OpenAIServer) -> None:
    reply = await reply_of(server, "deepseek", chunk({"reasoning_content": "hm", "tool_calls": [part(0)]}))
    for family in ("openai", "mistral", "other", "groq"):
        assert "reasoning_content" not in await sent_back(server, family, reply)


@pytest.mark.parametrize(
    ("family", "limit", "format_", "roles"),
    [
        ("openai", "max_completion_tokens", {"type": "json_object"}, ["system", "system", "user", "system"]),
        ("azure", "max_completion_tokens", {"type": "json_object"}, ["system", "system", "user", "system"]),
        ("mistral", "max_tokens", {"type": "json_object"}, ["system", "user"]),
        ("lmstudio", "max_tokens", None, ["system", "user"]),
        ("other", "max_tokens", None, ["system", "user"]),
    ],
)
async def test_a_request_is_as_its_family_takes_it(
    server: OpenAIServer, family: str, limit: str, format_: object, roles: list[str]
) -> None:
    model = OpenAIModel("m", base_url=server.url, server=family)
    messages = [ChatMessage("system", "A"), ChatMessage("system", "B"), QUESTION, ChatMessage("system", "note")]
    await model.generate(ModelRequest(messages, max_tokens=9, is_json=True))
    await model.close()
    body = server.received[-1].body
    assert (body[limit], body.get("response_format")) == (9, format_)
    assert [message["role"] for message in body["messages"]] == roles


async def test_gemini_gets_schemas_without_references(server: OpenAIServer) -> None:
    tools = [ToolSpec("add", "adds", REFERRING)]
    for family, expected in (
        ("gemini", {"type": "object", "properties": {"a": {"type": "integer"}}}),
        ("other", REFERRING),
    ):
        model = OpenAIModel("m", base_url=server.url, server=family)
        await model.generate(ModelRequest([QUESTION], tools=tools))
        await model.close()
        [sent] = server.received[-1].body["tools"]
        assert sent["function"]["parameters"] == expected


async def test_openai_gets_the_same_cache_key_for_all_steps_of_an_agent(server: OpenAIServer) -> None:
    model, tools = OpenAIModel("m", base_url=server.url, server="openai"), [ToolSpec("add", "adds", REFERRING)]
    prompt = ChatMessage("system", "be brief")
    for messages in ([prompt, QUESTION], [prompt, QUESTION, ChatMessage("assistant", "a"), QUESTION]):
        await model.generate(ModelRequest(messages, tools=tools))
    await model.generate(ModelRequest([ChatMessage("system", "another"), QUESTION], tools=tools))
    await model.generate(ModelRequest([prompt, QUESTION]))
    await model.close()
    keys = [received.body.get("prompt_cache_key") for received in server.received]
    assert keys[0] == keys[1] != keys[2]
    assert keys[3] is None, "no step follows"


async def test_mistral_gets_ids_of_nine_characters(server: OpenAIServer) -> None:
    model = OpenAIModel("m", base_url=server.url, server="mistral")
    call = ToolCall("call_0123456789", "add", "{}")
    await model.generate(
        ModelRequest([QUESTION, ChatMessage("assistant", tool_calls=(call,)), ChatMessage("tool", "2", (), call.id)])
    )
    await model.close()
    _, asked, result = server.received[-1].body["messages"]
    assert asked["tool_calls"][0]["id"] == result["tool_call_id"]
    assert len(result["tool_call_id"]) == 9


@pytest.mark.parametrize(("family", "first", "second"), [("other", 0, 1), ("openai", 1, 0)])
async def test_the_other_name_of_the_limit_is_learned(
    server: OpenAIServer, family: str, first: int, second: int
) -> None:
    names = ("max_tokens", "max_completion_tokens")
    words = f"Unsupported parameter: '{names[first]}' is not supported. Use '{names[second]}' instead."
    server.script(Answer(status=400, body={"error": {"message": words}}))
    model = OpenAIModel("m", base_url=server.url, server=family)
    for _ in range(2):
        await model.generate(ModelRequest([QUESTION], max_tokens=9))
    await model.close()
    assert [[name for name in names if name in received.body] for received in server.received] == [
        [names[first]],
        [names[second]],
        [names[second]],
    ]


async def test_a_server_that_refuses_both_names_of_the_limit_is_reported(server: OpenAIServer) -> None:
    words = "max_tokens and max_completion_tokens are not allowed here"
    server.script(*(Answer(status=400, body={"error": {"message": words}}) for _ in range(3)))
    model = OpenAIModel("m", base_url=server.url)
    with pytest.raises(InvalidArgument, match="not allowed here"):
        await model.generate(ModelRequest([QUESTION], max_tokens=9))
    await model.close()


async def test_the_family_is_set_by_variable_or_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_SERVER", "vllm")
    chosen = create_model("openai/m"), create_model(ModelSpec("openai/m", server={"system_messages": "any"}))
    assert [getattr(model, "profile").family for model in chosen] == ["vllm", "other"]  # noqa: B009
    assert getattr(chosen[1], "profile").system_messages == "any"  # noqa: B009
    fallback = create_model(ModelSpec("openai/m", ("text/openai/n", "offline"), server="vllm"))
    clients = getattr(fallback, "_clients")  # noqa: B009
    assert [getattr(clients[0], "profile").family, clients[1]._client.profile.family] == ["vllm", "vllm"]  # noqa: B009
    for model in (*chosen, fallback):
        await model.close()
    with pytest.raises(InvalidArgument, match="unknown family of servers 'vlm'"):
        create_model(ModelSpec("openai/m", server="vlm"))
    monkeypatch.setenv("OPENAI_MEDIA", "image")
    seeing = create_model("openai/m")
    assert getattr(seeing, "media").media == ("image",)  # noqa: B009
    await seeing.close()
    with pytest.raises(InvalidArgument, match="takes no `server`"):
        create_model(ModelSpec("offline", server="vllm"))
