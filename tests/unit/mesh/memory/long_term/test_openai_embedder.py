"""The embedder behind an embeddings API, against a real local server."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.errors import InvalidArgument, ResourceExhausted, Unauthenticated, Unavailable
from archon_mesh.memory.long_term.embedders import OfflineEmbedder, create_embedder
from archon_mesh.memory.long_term.embedders.cache import CachedEmbedder
from archon_mesh.memory.long_term.embedders.openai import BATCH_TEXTS, OpenAIEmbedder
from tests.fixtures.openai_server import Answer, OpenAIServer


def answer(body: dict[str, Any]) -> Answer:
    """Returns [number of characters, 1] for each text, last text first: the index tells which is which."""
    data = [
        {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
        for index, text in enumerate(body["input"])
    ]
    return Answer(
        {"object": "list", "model": body["model"], "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    )


class Sleeps:
    """Records pauses instead of waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.now = 0.0

    async def __call__(self, seconds: float) -> None:
        self.now += seconds
        if seconds:
            self.seconds.append(seconds)


@pytest.fixture
async def server() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer(answer=answer) as running:
        yield running


def embedder(server: OpenAIServer, sleeps: Sleeps, **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        "small", base_url=server.url, sleep=sleeps, clock=lambda: sleeps.now, uniform=lambda low, _: low, **options
    )


async def test_vectors_are_in_order_and_of_length_one(server: OpenAIServer) -> None:
    client = embedder(server, Sleeps())
    vectors = await client.embed(["a", "bbb", "cc"])
    assert [round(vector[0] / vector[1]) for vector in vectors] == [1, 3, 2]
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for vector in vectors)
    assert (client.name, client.dimensions) == ("openai/small", 2)
    assert server.received[0].path == "/v1/embeddings"
    await client.close()


async def test_many_texts_are_sent_in_batches(server: OpenAIServer) -> None:
    client = embedder(server, Sleeps())
    assert len(await client.embed([f"text {number}" for number in range(2 * BATCH_TEXTS + 1)])) == 2 * BATCH_TEXTS + 1
    assert [len(request.body["input"]) for request in server.received] == [BATCH_TEXTS, BATCH_TEXTS, 1]
    await client.close()


async def test_a_rate_limit_is_retried_after_its_pause(server: OpenAIServer) -> None:
    sleeps = Sleeps()
    client = embedder(server, sleeps)
    server.script(
        Answer({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "7"}),
        Answer({"error": {"message": "an accident"}}, status=500),
    )
    assert len(await client.embed(["x"])) == 1
    assert sleeps.seconds == [7.0]
    await client.close()


async def test_retries_end_and_a_wrong_request_has_none(server: OpenAIServer) -> None:
    client = embedder(server, Sleeps(), retries=2)
    server.script(*[Answer({"error": {"message": "down"}}, status=503)] * 3)
    with pytest.raises(Unavailable):
        await client.embed(["x"])
    assert len(server.received) == 3
    server.script(Answer({"error": {"message": "too long"}}, status=400))
    with pytest.raises(InvalidArgument):
        await client.embed(["x"])
    assert len(server.received) == 4
    await client.close()


async def test_requests_above_the_limit_wait(server: OpenAIServer) -> None:
    sleeps = Sleeps()
    client = embedder(server, sleeps, requests_per_minute=1)
    await client.embed(["a"])
    await client.embed(["b"])
    assert sleeps.seconds == [60.0]
    limited = embedder(server, Sleeps(), tokens_per_minute=1)
    with pytest.raises(ResourceExhausted):
        await limited.embed(["a long text " * 100])
    await client.close()


@pytest.mark.parametrize(
    "data",
    [
        [],
        [{"index": 0, "embedding": [1.0, 0.0]}, {"index": 1, "embedding": [1.0]}],
        [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}],
        [{"index": 0}, {"index": 1}],
    ],
)
async def test_malformed_embeddings_are_unavailable(server: OpenAIServer, data: list[Any]) -> None:
    client = embedder(server, Sleeps(), retries=0)
    server.script(Answer({"object": "list", "model": "m", "data": data, "usage": {}}))
    with pytest.raises(Unavailable):
        await client.embed(["a", "b"])
    await client.close()


async def test_a_text_without_an_embedding_is_refused(server: OpenAIServer) -> None:
    client = embedder(server, Sleeps())
    data = [{"index": 0, "embedding": [0.0, 0.0]}, {"index": 1, "embedding": [1.0, 0.0]}]
    server.script(Answer({"object": "list", "model": "m", "data": data, "usage": {}}))
    with pytest.raises(InvalidArgument):
        await client.embed(["a", "b"])
    assert len(server.received) == 1, "a retry would not help"
    await client.close()


async def test_the_configuration_selects_the_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert isinstance(create_embedder("offline"), OfflineEmbedder)
    created = create_embedder("openai/small", base_url="http://127.0.0.1:9/v1")
    assert isinstance(created, CachedEmbedder)
    assert created.name == "openai/small"
    await created.close()
    for spec in ("magic", "openai/", "anthropic/x"):
        with pytest.raises(InvalidArgument):
            create_embedder(spec)
    with pytest.raises(Unauthenticated):
        create_embedder("openai/small")


async def test_an_endpoint_of_its_own_does_not_get_the_key_of_the_chat_model(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-the-chat-model")
    monkeypatch.setenv("ARCHON_EMBEDDER_URL", server.url)
    for own, expected in (("", None), ("another-key", "Bearer another-key")):
        monkeypatch.setenv("ARCHON_EMBEDDER_KEY", own)
        client = create_embedder("openai/small")
        server.script(Answer({"object": "list", "model": "m", "data": [{"index": 0, "embedding": [1.0]}], "usage": {}}))
        await client.embed([f"a text {own}"])
        await client.close()
        assert server.received[-1].headers.get("authorization") == expected


async def test_queries_and_texts_have_the_prefixes_of_their_model(server: OpenAIServer) -> None:
    client = OpenAIEmbedder("intfloat/multilingual-e5-small", base_url=server.url, api_key="k")
    item = {"index": 0, "embedding": [1.0]}
    server.script(*[Answer({"object": "list", "model": "m", "data": [item], "usage": {}}) for _ in range(2)])
    await client.embed(["Ana is vegetarian."])
    await client.embed_queries(["What does Ana eat?"])
    await client.close()
    assert [request.body["input"] for request in server.received[-2:]] == [
        ["passage: Ana is vegetarian."],
        ["query: What does Ana eat?"],
    ]


async def test_a_request_has_the_time_limit_that_is_set(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    created = create_embedder("openai/small", base_url=server.url, timeout=90)
    limits: list[float] = []

    async def post(body: object, timeout: float) -> object:
        limits.append(timeout)
        raise InvalidArgument("not sent")

    monkeypatch.setattr(created._embedder._http, "post", post)  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument):
        await created.embed(["a text"])
    await created.close()
    assert limits == [90]
