"""Creates a model client from the model's name in the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ModelClient

NATIVE: Final = ("google", "mistral", "bedrock")
"""Providers whose own APIs are reached through the extra `providers`."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model with others to fall back on.

    `use` and `fallback` are names for `create_model`. The limits per minute concern the model of `use`: a call that
    would wait for too long is answered by the first fallback, or fails if there is none. `thinking` are settings for
    the provider of `use`, sent as they are: `thinking` of Anthropic, `reasoning` of OpenAI's responses API. `server` is
    the family of servers that answers for `openai/NAME`, also of `fallback`, or single keys of its profile
    (`archon_mesh.llm.servers`); of other providers, the keys about files (`archon_mesh.llm.media`).
    """

    use: str
    fallback: tuple[str, ...] = ()
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    thinking: Mapping[str, Any] | None = None
    server: str | Mapping[str, Any] | None = None


def create_model(
    spec: str | ModelSpec = "offline",
    *,
    base_url: str | None = None,
    api_key: str | None = None,
) -> ModelClient:
    """Returns the client for `openai/NAME`, `openai-responses/NAME`, `anthropic/NAME`, `google/NAME`, `mistral/NAME` or
    `bedrock/NAME`, each of these after `text/`, or `offline`; for several, separated by commas, a fallback chain.

    `text/` is for models without function calling: they call tools in the text format. A key in the environment alone
    never selects a paid model.

    `base_url` and `api_key` default to the provider's variables, such as OPENAI_BASE_URL and OPENAI_API_KEY. Raises
    InvalidArgument for any other spec, Unauthenticated if the endpoint is the provider itself and there is no key, and
    FailedPrecondition if the package of the extra `providers` is not installed.
    """
    if isinstance(spec, str) and "," not in spec:
        return _create_one(spec, base_url, api_key)
    if isinstance(spec, str):
        first, *others = (name.strip() for name in spec.split(","))
        spec = ModelSpec(first, tuple(others))
    from archon_mesh.llm.wrappers import FallbackModel, RateLimitedModel

    client = _create_one(spec.use, base_url, api_key, spec.thinking, spec.server)
    if spec.requests_per_minute is not None or spec.tokens_per_minute is not None:
        client = RateLimitedModel(
            client, requests_per_minute=spec.requests_per_minute, tokens_per_minute=spec.tokens_per_minute
        )
    if not spec.fallback:
        return client
    shared = spec.server if _is_chat(spec.use) else None
    fallbacks = [
        _create_one(name, base_url, api_key, server=shared if _is_chat(name) else None) for name in spec.fallback
    ]
    return FallbackModel([client, *fallbacks])


def _is_chat(name: str) -> bool:
    """Returns whether a model is behind the chat completions API, and so behind the same server as others are."""
    return name.strip().removeprefix("text/").startswith("openai/")


def _keys(server: str | Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return server if isinstance(server, Mapping) else None


def _create_one(
    name: str,
    base_url: str | None,
    api_key: str | None,
    thinking: Mapping[str, Any] | None = None,
    server: str | Mapping[str, Any] | None = None,
) -> ModelClient:
    provider, _, model = name.partition("/")
    model = model.strip()
    if thinking is not None and provider not in ("anthropic", "openai-responses"):
        raise InvalidArgument(
            f"{name!r} takes no settings of thinking: use 'anthropic/NAME' or 'openai-responses/NAME'"
        )
    is_family = isinstance(server, str) or "family" in (server or {})
    if server is not None and (name == "offline" or (is_family and provider not in ("openai", "text"))):
        raise InvalidArgument(f"{name!r} takes no `server`: it is for 'openai/NAME', behind OPENAI_BASE_URL")
    if provider == "text" and "/" in model:
        from archon_mesh.llm.text_format.text_tool_model import TextToolModel

        return TextToolModel(_create_one(model, base_url, api_key, None, server))
    if name == "offline":
        from archon_mesh.llm.offline import OfflineModel

        return OfflineModel()
    if provider == "openai" and model:
        from archon_mesh.llm.openai import OpenAIModel

        return OpenAIModel(model, base_url=base_url, api_key=api_key, server=server)
    if provider == "openai-responses" and model:
        from archon_mesh.llm.responses import ResponsesModel

        return ResponsesModel(model, base_url=base_url, api_key=api_key, reasoning=thinking, server=_keys(server))
    if provider == "anthropic" and model:
        from archon_mesh.llm.anthropic import AnthropicModel

        return AnthropicModel(model, base_url=base_url, api_key=api_key, thinking=thinking, server=_keys(server))
    if provider in NATIVE and model:
        from archon_mesh.llm.native.model import NativeModel

        return NativeModel(provider, model, base_url=base_url, api_key=api_key, server=_keys(server))
    raise InvalidArgument(
        f"unknown model {name!r}: use 'offline', 'openai/NAME', 'openai-responses/NAME', 'anthropic/NAME', "
        "'google/NAME', 'mistral/NAME' or 'bedrock/NAME', such as 'openai/gpt-4o-mini'"
    )
