"""Creates a model client from the model's name in the configuration."""

from __future__ import annotations

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ModelClient


def create_model(
    spec: str = "offline",
    *,
    base_url: str | None = None,
    api_key: str | None = None,
) -> ModelClient:
    """Returns the client for `openai/NAME`, `openai-responses/NAME`, `anthropic/NAME`, each of these after `text/`, or
    `offline`.

    `text/` is for models without function calling: they call tools in the text format. A key in the environment alone
    never selects a paid model.

    `base_url` and `api_key` default to the provider's variables: OPENAI_BASE_URL and OPENAI_API_KEY, or
    ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY. Raises InvalidArgument for any other spec, Unauthenticated if the endpoint
    is the provider itself and there is no key, and FailedPrecondition if the provider's package is not installed.
    """
    provider, _, name = spec.partition("/")
    name = name.strip()
    if provider == "text" and "/" in name:
        from archon_mesh.llm.text_format.text_tool_model import TextToolModel

        return TextToolModel(create_model(name, base_url=base_url, api_key=api_key))
    if spec == "offline":
        from archon_mesh.llm.offline import OfflineModel

        return OfflineModel()
    if provider == "openai" and name:
        from archon_mesh.llm.openai import OpenAIModel

        return OpenAIModel(name, base_url=base_url, api_key=api_key)
    if provider == "openai-responses" and name:
        from archon_mesh.llm.responses import ResponsesModel

        return ResponsesModel(name, base_url=base_url, api_key=api_key)
    if provider == "anthropic" and name:
        from archon_mesh.llm.anthropic import AnthropicModel

        return AnthropicModel(name, base_url=base_url, api_key=api_key)
    raise InvalidArgument(
        f"unknown model {spec!r}: use 'offline', 'openai/NAME', 'openai-responses/NAME' or 'anthropic/NAME', such as "
        "'openai/gpt-4o-mini'"
    )
