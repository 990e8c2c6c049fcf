"""Files in the requests of the three clients, and what follows if a server refuses them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from archon.errors import InvalidArgument, Unavailable
from archon_mesh.core.media import Media
from archon_mesh.core.messages import ChatMessage, ToolCall
from archon_mesh.llm import ModelRequest, TextToolModel, ToolSpec
from archon_mesh.llm.anthropic import AnthropicModel
from archon_mesh.llm.chunks import whole_reply
from archon_mesh.llm.openai import OpenAIModel
from archon_mesh.llm.responses import ResponsesModel
from archon_mesh.llm.retry import is_transient
from tests.fixtures import anthropic_server, responses_server
from tests.fixtures.anthropic_server import AnthropicServer
from tests.fixtures.media import JPEG, MP3, PDF, PNG, WAV, in_base64
from tests.fixtures.openai_server import Answer, OpenAIServer, chunk, completion
from tests.fixtures.responses_server import ResponsesServer

IMAGE = Media(PNG, "image/png", name="a.png")
AT_URL = Media.at("https://x.org/b.jpg", "image/jpeg")
REPORT = Media(PDF, "application/pdf", name="r.pdf")
EVERY = {"media": ["image", "audio", "file"]}
PNG_URL = f"data:image/png;base64,{in_base64(PNG)}"
PDF_URL = f"data:application/pdf;base64,{in_base64(PDF)}"
LABEL = f"[a.png, image/png, {len(PNG)} bytes]"
CALLS = (ToolCall("c1", "look", "{}"), ToolCall("c2", "shoot", "{}"))


def asked(*files: Media, text: str = "What is this?") -> ModelRequest:
    return ModelRequest([ChatMessage("user", text, files=files)], timeout=10)


def with_results(*files: Media) -> ModelRequest:
    """A request after two calls, the first of which has returned the files."""
    labels = " ".join(file.label for file in files)
    return ModelRequest(
        [
            ChatMessage("user", "Look and shoot."),
            ChatMessage("assistant", tool_calls=CALLS),
            ChatMessage("tool", labels, tool_call_id="c1", files=files),
            ChatMessage("tool", "shot", tool_call_id="c2"),
        ],
        timeout=10,
    )


@pytest_asyncio.fixture
async def chat() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture
async def responses() -> AsyncIterator[ResponsesServer]:
    async with ResponsesServer() as server:
        yield server


@pytest_asyncio.fixture
async def anthropic() -> AsyncIterator[AnthropicServer]:
    async with AnthropicServer() as server:
        server.script(*[anthropic_server.streamed(anthropic_server.text(0, "a dot"), anthropic_server.stop())] * 2)
        yield server


async def sent_to_chat(server: OpenAIServer, request: ModelRequest, **keys: Any) -> list[dict[str, Any]]:
    """Returns the messages of the last request."""
    model = OpenAIModel("m", base_url=server.url, server={**EVERY, **keys})
    try:
        await model.generate(request)
    finally:
        await model.close()
    messages: list[dict[str, Any]] = server.received[-1].body["messages"]
    return messages


async def test_chat_gets_text_then_images_audio_and_files(chat: OpenAIServer) -> None:
    files = [IMAGE, AT_URL, Media(WAV, "audio/x-wav"), Media(MP3, "audio/mpeg"), REPORT, Media(PDF)]
    [message] = await sent_to_chat(chat, asked(*files))
    assert message == {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": PNG_URL}},
            {"type": "image_url", "image_url": {"url": "https://x.org/b.jpg"}},
            {"type": "input_audio", "input_audio": {"data": in_base64(WAV), "format": "wav"}},
            {"type": "input_audio", "input_audio": {"data": in_base64(MP3), "format": "mp3"}},
            {"type": "file", "file": {"filename": "r.pdf", "file_data": PDF_URL}},
            {"type": "file", "file": {"filename": "file.pdf", "file_data": PDF_URL}},
        ],
    }


async def test_chat_gets_urls_of_files_where_they_are_taken(chat: OpenAIServer) -> None:
    files = [Media.at("https://x.org/a.wav", "audio/wav"), Media.at("https://x.org/r.pdf", "application/pdf")]
    with pytest.raises(InvalidArgument, match="audio/wav from a URL; `media_urls`"):
        await sent_to_chat(chat, asked(*files))
    [message] = await sent_to_chat(chat, asked(*files), media_urls=["audio", "file"])
    assert message["content"][1:] == [
        {"type": "audio_url", "audio_url": {"url": "https://x.org/a.wav"}},
        {"type": "file", "file": {"filename": "file.pdf", "file_data": "https://x.org/r.pdf"}},
    ]


async def test_an_image_is_sent_as_what_its_bytes_are(chat: OpenAIServer) -> None:
    [message] = await sent_to_chat(chat, asked(Media(JPEG, "image/png"), text=""))
    assert message["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{in_base64(JPEG)}"}}
    ], "there is no empty text, which some servers refuse"


async def test_chat_gets_files_of_results_behind_all_results(chat: OpenAIServer) -> None:
    request = with_results(IMAGE)
    first = await sent_to_chat(chat, request)
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "tool", "user"]
    assert (first[2]["content"], first[3]["content"]) == (LABEL, "shot")
    text, image = first[4]["content"]
    assert text == {"type": "text", "text": f"Files of the results, in their order:\n{LABEL} of look (c1)"}
    assert image == {"type": "image_url", "image_url": {"url": PNG_URL}}
    later = ChatMessage("assistant", tool_calls=(ToolCall("c3", "look", "{}"),))
    result = ChatMessage("tool", LABEL, tool_call_id="c3", files=[IMAGE])
    second = await sent_to_chat(chat, ModelRequest([*request.messages, later, result], timeout=10))
    assert second[: len(first)] == first, "the request begins as the one before"


async def test_a_server_that_wants_a_reply_behind_results_gets_one(chat: OpenAIServer) -> None:
    messages = await sent_to_chat(chat, with_results(IMAGE), after_results="reply")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant", "user"]


async def test_responses_get_text_then_images_and_files(responses: ResponsesServer) -> None:
    model = ResponsesModel("m", base_url=responses.url, api_key="k")
    await model.generate(asked(IMAGE, AT_URL, REPORT, Media.at("https://x.org/r.pdf", "application/pdf", name="r")))
    await model.close()
    assert responses.received[-1].body["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
                {"type": "input_image", "image_url": "https://x.org/b.jpg", "detail": "auto"},
                {"type": "input_file", "filename": "r.pdf", "file_data": PDF_URL},
                {"type": "input_file", "file_url": "https://x.org/r.pdf"},
            ],
        }
    ]


async def test_responses_get_files_of_results_within_them(responses: ResponsesServer) -> None:
    responses.script(responses_server.streamed(responses_server.text(0, "a dot"), responses_server.response()))
    model = ResponsesModel("m", base_url=responses.url, api_key="k")
    await model.generate(with_results(IMAGE))
    await model.close()
    first, second = responses.received[-1].body["input"][-2:]
    assert first["output"] == [
        {"type": "input_text", "text": LABEL},
        {"type": "input_image", "image_url": PNG_URL, "detail": "auto"},
    ]
    assert second["output"] == "shot"


async def test_anthropic_gets_text_then_images_and_documents(anthropic: AnthropicServer) -> None:
    model = AnthropicModel("m", base_url=anthropic.url, api_key="k")
    await model.generate(asked(IMAGE, AT_URL, REPORT))
    await model.close()
    [message] = anthropic.received[-1].body["messages"]
    assert message["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": in_base64(PNG)}},
        {"type": "image", "source": {"type": "url", "url": "https://x.org/b.jpg"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": in_base64(PDF)},
            "title": "r.pdf",
        },
    ]


async def test_anthropic_gets_files_of_results_within_them(anthropic: AnthropicServer) -> None:
    model = AnthropicModel("m", base_url=anthropic.url, api_key="k")
    await model.generate(with_results(Media(JPEG, "image/png")))
    await model.close()
    first, second = anthropic.received[-1].body["messages"][-1]["content"]
    image = {"type": "base64", "media_type": "image/jpeg", "data": in_base64(JPEG)}
    assert (first["type"], second["type"]) == ("tool_result", "tool_result")
    assert first["content"][1] == {"type": "image", "source": image}


async def test_a_model_in_the_text_format_gets_files_of_observations(chat: OpenAIServer) -> None:
    for media, shown in ((["image"], 1), ([], 0)):
        chat.script(Answer(completion({"content": "Final Answer: a dot"})))
        model = TextToolModel(OpenAIModel("m", base_url=chat.url, server={"media": media}))
        request = ModelRequest(with_results(IMAGE).messages, [ToolSpec("look", "Looks.", {})], timeout=10)
        await model.generate(request)
        await model.close()
        content = chat.received[-1].body["messages"][-1]["content"]
        texts = content if isinstance(content, str) else content[0]["text"]
        assert texts.startswith(f"Observation: {LABEL}\nObservation: shot")
        assert ("is not shown to you" in texts) is (not shown)
        assert len(content[1:] if shown else []) == shown


CLIENTS: dict[str, Any] = {
    "chat": lambda url: OpenAIModel("m", base_url=url, server={"media": []}),
    "responses": lambda url: ResponsesModel("m", base_url=url, api_key="k", server={"media": ["file"]}),
    "anthropic": lambda url: AnthropicModel("m", base_url=url, api_key="k", server={"media": ["file"]}),
}


@pytest.mark.parametrize("create", CLIENTS.values(), ids=CLIENTS)
async def test_a_file_that_is_not_taken_fails_before_any_call(create: Any, chat: OpenAIServer) -> None:
    model = create(chat.url)
    with pytest.raises(InvalidArgument, match=r"the model m does not take the file \[a.png") as raised:
        await model.generate(asked(IMAGE))
    await model.close()
    assert raised.value.field_violations and not is_transient(raised.value)
    assert chat.received == []


REFUSALS = [
    Answer({"error": {"message": "this model does not support image input"}}, status=400),
    Answer({"error": {"message": "messages[1]: unknown variant `image_url`, expected `text`"}}, status=400),
    Answer({"error": {"message": "Could not process image"}}, status=400),
    Answer({"error": {"message": "messages[1].content must be a string"}}, status=400),
    Answer({"detail": [{"loc": ["body", "input", 0, "output"], "msg": "Input should be a valid string"}]}, status=422),
    Answer({"error": {"message": "No endpoints found that support image input"}}, status=404),
    Answer({"error": {"message": "image input is not supported - hint: you may need the mmproj"}}, status=500),
    Answer({"error": {"message": "Request exceeds the maximum size"}}, status=413),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda answer: str(answer.status))
async def test_a_server_that_refuses_a_users_file_is_not_asked_again(refusal: Answer, chat: OpenAIServer) -> None:
    chat.script(refusal)
    with pytest.raises(InvalidArgument, match="`media` of its `server`") as raised:
        await sent_to_chat(chat, asked(IMAGE))
    error = raised.value
    said = refusal.body["error"]["message"] if "error" in refusal.body else "Input should be a valid string"
    assert said in error.message and IMAGE.label in error.message
    assert error.field_violations and not is_transient(error)
    assert error.metadata["http_status"] == str(refusal.status)
    assert len(chat.received) == 1


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda answer: str(answer.status))
async def test_a_refused_file_of_a_result_is_left_out_once_and_for_all(refusal: Answer, chat: OpenAIServer) -> None:
    chat.script(refusal)
    model = OpenAIModel("m", base_url=chat.url, server=EVERY)
    request = with_results(IMAGE)
    await model.generate(request)
    later = ModelRequest(
        [*request.messages, ChatMessage("assistant", "I see."), ChatMessage("user", "And?")], timeout=10
    )
    await model.generate(later)
    await model.close()
    assert len(chat.received) == 3
    first, second, third = (received.body["messages"] for received in chat.received)
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "tool", "user"]
    assert [message["role"] for message in second] == ["user", "assistant", "tool", "tool"]
    assert "is not shown to you: the model's server refused it" in second[2]["content"]
    assert third[:4] == second


async def test_of_several_files_the_newest_results_are_left_out(chat: OpenAIServer) -> None:
    chat.script(REFUSALS[2])
    other = Media(JPEG, "image/jpeg")
    later = ChatMessage("assistant", tool_calls=(ToolCall("c3", "look", "{}"),))
    newest = ChatMessage("tool", other.label, tool_call_id="c3", files=[other])
    messages = [ChatMessage("user", "Look.", files=[IMAGE]), *with_results(IMAGE).messages[1:], later, newest]
    sent = await sent_to_chat(chat, ModelRequest(messages, timeout=10))
    parts = [part["type"] for message in sent if isinstance(message["content"], list) for part in message["content"]]
    assert parts.count("image_url") == 2, "the user's image, and the result that was taken before"


@pytest.mark.parametrize("status", [400, 500])
async def test_an_error_about_something_else_stays_as_it_is(status: int, chat: OpenAIServer) -> None:
    chat.script(Answer({"error": {"message": "the temperature is too high"}}, status=status))
    with pytest.raises(Exception, match="the temperature is too high") as raised:
        await sent_to_chat(chat, asked(IMAGE))
    assert "media" not in str(raised.value)


async def test_anthropic_and_responses_leave_out_refused_results(
    anthropic: AnthropicServer, responses: ResponsesServer
) -> None:
    refusal = anthropic_server.failure("invalid_request_error", "Could not process image", 400)
    anthropic._answers.appendleft(refusal)
    claude = AnthropicModel("m", base_url=anthropic.url, api_key="k")
    await claude.generate(with_results(IMAGE))
    await claude.close()
    assert len(anthropic.received) == 2
    answer = responses_server.streamed(responses_server.text(0, "a dot"), responses_server.response())
    responses.script(REFUSALS[0], answer)
    model = ResponsesModel("m", base_url=responses.url, api_key="k")
    await model.generate(with_results(IMAGE))
    await model.close()
    assert len(responses.received) == 2
    with pytest.raises(InvalidArgument, match="refuses the request"):
        responses.script(REFUSALS[0])
        await model.generate(asked(IMAGE))


@pytest.mark.parametrize("kind", ["invalid_request_error", "server_error"])
async def test_a_refusal_within_the_stream_counts_too(kind: str, chat: OpenAIServer) -> None:
    refusal = {"error": {"type": kind, "message": "this model does not support image input"}}
    model = OpenAIModel("m", base_url=chat.url, server=EVERY)
    chat.script(Answer(events=[refusal]))
    with pytest.raises(InvalidArgument, match="refuses the request with"):
        await whole_reply(model.stream(asked(IMAGE)))
    assert len(chat.received) == 1
    chat.script(Answer(events=[refusal]))
    reply = await whole_reply(model.stream(with_results(IMAGE)))
    assert reply.text.startswith("echo: Look and shoot.")
    assert "refused it" in chat.received[-1].body["messages"][2]["content"]
    chat.script(Answer(events=[chunk({"content": "It"}), refusal]))
    with pytest.raises((InvalidArgument, Unavailable), match="aborted its reply"):
        await whole_reply(model.stream(asked(IMAGE)))
    await model.close()


async def test_a_refused_file_of_an_earlier_run_is_left_out(chat: OpenAIServer) -> None:
    chat.script(REFUSALS[0])
    old = ChatMessage("user", "What is this?", files=[IMAGE], run_id="r1")
    answer = ChatMessage("assistant", "A dot.", run_id="r1")
    new = ChatMessage("user", "And now?", run_id="r2")
    sent = await sent_to_chat(chat, ModelRequest([old, answer, new], timeout=10))
    assert sent[0]["content"].endswith("is not shown to you: the model's server refused it.")
    assert len(chat.received) == 2
