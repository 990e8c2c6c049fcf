"""The profile of a server, by its URL, the model and what the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.core.media import Media
from archon_mesh.llm.servers import ServerProfile, families, find_profile, with_media
from tests.fixtures.media import PDF, PNG


@pytest.mark.parametrize(
    ("url", "family"),
    [
        (None, "openai"),
        ("https://api.openai.com/v1", "openai"),
        ("https://ours.openai.azure.com/openai/v1/", "azure"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"),
        ("https://europe-west1-aiplatform.googleapis.com/v1/projects/p", "gemini"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://[::1]:1234/v1", "lmstudio"),
        ("http://gpu:8000/v1", "other"),
        ("https://api.mistral.ai.example.com/v1", "other"),
        ("https://api.x.ai/v1", "xai"),
        ("http://host:port/v1", "other"),
        ("nonsense", "other"),
    ],
)
def test_a_family_is_known_by_host_or_port(url: str | None, family: str) -> None:
    assert find_profile(url, "some-model").family == family


def test_the_model_counts_whatever_serves_it() -> None:
    assert find_profile("http://gpu:8000/v1", "mistralai/Ministral-8B").tool_ids == "nine"
    assert find_profile("http://gpu:8000/v1", "Qwen/Qwen3-8B").tool_ids == "any"


def test_a_user_names_a_family_or_single_keys() -> None:
    assert find_profile("http://gpu:8000/v1", "m", "vllm").json_replies == ("object", "schema")
    given = {"family": "vllm", "system_messages": "any", "json": []}
    profile = find_profile("http://gpu:8000/v1", "m", given)
    assert (profile.family, profile.system_messages, profile.json_replies) == ("vllm", "any", ())
    assert find_profile("http://gpu:8000/v1", "mistral", {"tool_ids": "any"}).tool_ids == "any"


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("vlm", "unknown family of servers 'vlm': use openai, azure"),
        ({"system": "one"}, "unknown key 'system'; the keys are family, system_messages"),
        ({"system_messages": "two"}, "system_messages: Input should be 'one', 'first' or 'any'"),
        ({"json": "object"}, "json: Input should be a valid tuple"),
    ],
)
def test_an_unknown_family_or_key_names_what_is_known(chosen: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        find_profile(None, "m", chosen)  # type: ignore[arg-type]


def test_each_family_has_a_profile() -> None:
    for family in families():
        assert find_profile(None, "m", family).family == family


def test_the_page_about_models_names_each_family_and_key() -> None:
    page = (Path(__file__).parents[5] / "docs" / "models.md").read_text()
    section = page.partition("### Families of servers")[2].partition("\n## ")[0]
    keys = {field.alias or name for name, field in ServerProfile.model_fields.items()} - {"family"}
    assert not [name for name in (*families(), *keys) if f"`{name}`" not in section]


@pytest.mark.parametrize(
    ("url", "model", "taken"),
    [
        (None, "gpt-4o", ("image", "file")),
        (None, "gpt-6-sol", ("image", "file")),
        (None, "gpt-4", ()),
        (None, "gpt-3.5-turbo", ()),
        (None, "o3-mini", ()),
        (None, "gpt-4o-audio-preview", ("audio",)),
        ("http://gpu:8000/v1", "Qwen/Qwen2.5-VL-7B-Instruct", ("image",)),
        ("http://127.0.0.1:11434/v1", "qwen2.5vl:7b", ("image",)),
        ("http://127.0.0.1:11434/v1", "llama3.2-vision:11b", ("image",)),
        ("http://127.0.0.1:11434/v1", "llama3.2:3b", ()),
        ("http://127.0.0.1:11434/v1", "gemma3:4b", ("image",)),
        ("http://127.0.0.1:11434/v1", "gemma3:1b", ()),
        ("http://gpu:8000/v1", "google/gemma-3-27b-it", ("image",)),
        ("http://gpu:8000/v1", "mistralai/Mistral-Small-3.2-24B-Instruct-2506", ("image",)),
        ("http://gpu:8000/v1", "meta-llama/Llama-3.2-11B-Vision-Instruct", ("image",)),
        ("http://gpu:8000/v1", "our-own", ()),
        ("https://api.groq.com/openai/v1", "meta-llama/llama-4-scout-17b-16e-instruct", ("image",)),
        ("https://api.deepseek.com", "deepseek-chat", ()),
        ("https://openrouter.ai/api/v1", "deepseek/deepseek-v4", ()),
        ("https://openrouter.ai/api/v1", "deepseek-ai/deepseek-vl2", ("image",)),
        ("https://openrouter.ai/api/v1", "anthropic/claude-opus-5-5", ("image", "file")),
        ("https://api.mistral.ai/v1", "mistral-large-latest", ("image",)),
        ("https://api.mistral.ai/v1", "codestral-latest", ()),
        ("https://api.x.ai/v1", "grok-4", ("image",)),
        ("https://api.x.ai/v1", "grok-3", ()),
    ],
)
def test_files_that_a_model_takes_follow_from_server_and_model(
    url: str | None, model: str, taken: tuple[str, ...]
) -> None:
    assert find_profile(url, model).media == taken


def test_what_a_model_takes_may_be_in_the_environment() -> None:
    assert with_media("vllm", "") == "vllm" and with_media(None, " ,") is None
    profile = find_profile("http://gpu:8000/v1", "our-own", with_media("vllm", "image, audio/flac"))
    assert (profile.family, profile.media) == ("vllm", ("image", "audio/flac"))
    assert with_media({"media": []}, "image") == {"media": []}


def test_what_a_model_takes_may_be_set() -> None:
    profile = find_profile("http://gpu:8000/v1", "our-own", {"media": ["image", "image/heic"], "max_message_files": 2})
    assert profile.takes(Media(b"?", "image/heic")) and profile.takes(Media(PNG)) and not profile.takes(Media(PDF))
    assert profile.max_message_files == 2
    for media in (["video"], ["image/"], "image"):
        with pytest.raises(InvalidArgument, match="media"):
            find_profile(None, "m", {"media": media})
