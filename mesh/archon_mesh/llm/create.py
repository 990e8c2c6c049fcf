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
    """Returns the client for `openai/NAME`, `text/openai/NAME` or `offline`.

    `text/` is for models without function calling: they call tools in the text format. A key in the
    environment alone never selects a paid model.

    `base_url` and `api_key` are for `openai/NAME`; they default to OPENAI_BASE_URL and OPENAI_API_KEY. Raises
    InvalidArgument for any other spec, and Unauthenticated if the endpoint is OpenAI itself and there is no key.
    """
    provider, _, name = spec.partition("/")
    if provider == "text" and name.startswith("openai/"):
        from archon_mesh.llm.text_format.text_tool_model import TextToolModel

        return TextToolModel(create_model(name, base_url=base_url, api_key=api_key))
    if spec == "offline":
        from archon_mesh.llm.offline import OfflineModel

        return OfflineModel()
    if provider == "openai" and name.strip():
        from archon_mesh.llm.openai import OpenAIModel

        return OpenAIModel(name.strip(), base_url=base_url, api_key=api_key)
    raise InvalidArgument(f"unknown model {spec!r}: use 'offline' or 'openai/NAME', such as 'openai/gpt-4o-mini'")
