"""The profile of a server, by its URL, the model and what the user says."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_mesh.llm.servers import ServerProfile, families, find_profile


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
