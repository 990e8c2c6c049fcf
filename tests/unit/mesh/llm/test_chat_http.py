"""Requests of the chat completions API: the URL, the headers, and errors before a response."""

from __future__ import annotations

import socket

import pytest

from archon.errors import ArchonError, InvalidArgument, Unavailable
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest
from archon_mesh.llm.openai import OpenAIModel
from tests.fixtures.openai_server import Answer, OpenAIServer

HELLO = ModelRequest([ChatMessage("user", "hello")], timeout=10)


@pytest.mark.parametrize(
    ("end", "path"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/?api-version=preview", "/v1/chat/completions?api-version=preview"),
    ],
)
async def test_the_base_url_may_be_written_in_several_ways(end: str, path: str) -> None:
    async with OpenAIServer() as server:
        model = OpenAIModel("m", base_url=server.url + end)
        await model.generate(HELLO)
        await model.close()
    assert server.received[0].path == path


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "http://[::1/v1"])
def test_what_is_no_url_of_http_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid base URL"):
        OpenAIModel("m", base_url=url)


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    with pytest.raises(InvalidArgument, match="a proxy of the environment cannot be used"):
        OpenAIModel("m", base_url="http://model.test/v1")


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])
async def test_a_model_elsewhere_is_reached_through_the_proxy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with OpenAIServer() as proxy:
        monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        model = OpenAIModel("m", base_url="http://model.test/v1")
        await model.generate(HELLO)
        await model.close()
    assert proxy.received[0].path == "http://model.test/v1/chat/completions"


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9", "gopher://127.0.0.1:9"])
async def test_a_model_on_this_machine_is_reached_directly(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    async with OpenAIServer() as server:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            model = OpenAIModel("m", base_url=url)
            await model.generate(HELLO)
            await model.close()
    assert len(server.received) == 2


async def test_organisation_and_project_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    async with OpenAIServer() as server:
        model = OpenAIModel("m", base_url=server.url)
        await model.generate(HELLO)
        await model.close()
    headers = server.received[0].headers
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-1", "proj-1")
    assert "authorization" not in headers


async def failure_of(url: str) -> ArchonError:
    model = OpenAIModel("m", base_url=url, api_key="secret-0123456789")
    try:
        await model.generate(HELLO)
    except ArchonError as error:
        return error
    finally:
        await model.close()
    raise AssertionError("the call succeeded")


async def test_an_endpoint_that_cannot_be_reached_is_named_with_the_cause() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = await failure_of(f"http://user:password@127.0.0.1:{port}/v1?key=secret")
    assert isinstance(error, Unavailable)
    assert error.kind == "model.provider"
    assert f"http://127.0.0.1:{port} is unreachable" in str(error)
    assert str(error).endswith("Connection refused")
    assert not [word for word in ("password", "secret") if word in str(error)]


async def test_a_name_that_is_unknown_is_named() -> None:
    error = await failure_of("http://no-such-host.invalid/v1")
    assert isinstance(error, Unavailable)
    assert "http://no-such-host.invalid is unreachable" in str(error)


async def test_a_short_key_does_not_disfigure_messages() -> None:
    async with OpenAIServer() as server:
        server.script(Answer(status=400, body={"error": {"message": "none of the models is loaded"}}))
        model = OpenAIModel("m", base_url=server.url, api_key="none")
        with pytest.raises(InvalidArgument, match="none of the models is loaded"):
            await model.generate(HELLO)
        await model.close()
