"""Creating a model client by name."""

from __future__ import annotations

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.messages import ChatMessage
from archon_mesh.llm import ModelRequest, ModelSpec, create_model
from tests.fixtures.anthropic_server import AnthropicServer
from tests.fixtures.openai_server import OpenAIServer


def test_offline_is_the_default_even_if_a_key_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert create_model().model == "offline"


async def test_openai_model_name_may_contain_slashes() -> None:
    model = create_model("openai/meta/llama-3", base_url="http://127.0.0.1:9/v1", api_key="none")
    assert model.model == "meta/llama-3"
    await model.close()


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "openai",
        "openai/",
        "openai/ ",
        "anthropic/",
        "openai-responses/",
        "text/x",
        "gpt-4o",
        "offline/x",
        "other/m",
    ],
)
def test_unknown_model_is_rejected_with_the_valid_choices(spec: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        create_model(spec)
    assert "'offline'" in str(caught.value)
    assert "'openai/NAME'" in str(caught.value)


@pytest.mark.parametrize(("spec", "name"), [("anthropic/claude", "claude"), ("openai-responses/gpt", "gpt")])
async def test_each_provider_has_its_client_also_for_the_text_format(spec: str, name: str) -> None:
    for each in (spec, f"text/{spec}"):
        model = create_model(each, base_url="http://127.0.0.1:9/v1")
        assert model.model == name
        await model.close()


async def test_names_with_commas_are_a_fallback_chain() -> None:
    model = create_model("openai/down, offline", base_url="http://127.0.0.1:9/v1")
    reply = await model.generate(ModelRequest([ChatMessage("user", "hello")], timeout=10))
    assert reply.model == "offline"
    await model.close()


async def test_a_rate_limited_model_falls_back_instead_of_waiting_long() -> None:
    spec = ModelSpec("openai/some", ("offline",), requests_per_minute=1, tokens_per_minute=100_000)
    async with OpenAIServer() as server:
        model = create_model(spec, base_url=server.url)
        request = ModelRequest([ChatMessage("user", "hello")], timeout=10)
        replies = [(await model.generate(request)).model for _ in range(2)]
        await model.close()
    assert replies == ["served-model", "offline"]


async def test_settings_of_thinking_reach_the_provider() -> None:
    async with AnthropicServer() as server:
        model = create_model(ModelSpec("anthropic/some", thinking={"type": "adaptive"}), base_url=server.url)
        await model.generate(ModelRequest([ChatMessage("user", "hello")], timeout=10))
        await model.close()
    assert server.received[0].body["thinking"] == {"type": "adaptive"}
    with pytest.raises(InvalidArgument, match="takes no settings of thinking"):
        create_model(ModelSpec("openai/some", thinking={}), base_url="http://127.0.0.1:9/v1")


def test_an_unknown_model_in_a_chain_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match="unknown model 'gpt'"):
        create_model("offline,gpt")


async def test_other_providers_take_the_keys_about_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for use in ("anthropic/m", "openai-responses/m"):
        chain = create_model(ModelSpec(use, ("openai/n",), server={"media": ["file"], "max_message_files": 3}))
        first, second = getattr(chain, "_clients")  # noqa: B009
        assert (first.media.media, first.media.max_message_files) == (("file",), 3)
        assert second.media.max_message_files == 20, "another API has its own profile"
        await chain.close()
        with pytest.raises(InvalidArgument, match="unknown key 'length'; the keys are media"):
            create_model(ModelSpec(use, server={"length": "max_tokens"}))
        with pytest.raises(InvalidArgument, match="takes no `server`"):
            create_model(ModelSpec(use, server={"family": "vllm"}))
