"""From a model's spec, as it stands in configuration, to a client."""

from __future__ import annotations

from archon.errors import InvalidArgument
from archon_mesh.llm.base import ModelClient


def create_model(
    spec: str = "offline",
    *,
    base_url: str | None = None,
    api_key: str | None = None,
) -> ModelClient:
    """The client for `openai/NAME` or `offline`; a key in the environment alone never leads to a paid model.

    `base_url` and `api_key` are for `openai/NAME`; OPENAI_BASE_URL and OPENAI_API_KEY stand in for them.
    Raises InvalidArgument for another spec; Unauthenticated where OpenAI itself is meant and no key is there.
    """
    provider, _, name = spec.partition("/")
    if spec == "offline":
        from archon_mesh.llm.offline import OfflineModel

        return OfflineModel()
    if provider == "openai" and name.strip():
        from archon_mesh.llm.openai import OpenAIModel

        return OpenAIModel(name.strip(), base_url=base_url, api_key=api_key)
    raise InvalidArgument(
        f"There is no model {spec!r}; possible are 'offline' and 'openai/NAME', as in 'openai/gpt-4o-mini'."
    )
