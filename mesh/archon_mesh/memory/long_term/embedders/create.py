"""Creates an embedder from its name in the configuration."""

from __future__ import annotations

from archon.errors import InvalidArgument
from archon_mesh.memory.long_term.embedders.base import Embedder
from archon_mesh.memory.long_term.embedders.cache import CachedEmbedder
from archon_mesh.memory.long_term.embedders.offline import OfflineEmbedder


def create_embedder(spec: str = "offline", *, base_url: str | None = None, api_key: str | None = None) -> Embedder:
    """Returns the embedder for `offline` or `openai/NAME`, such as `openai/text-embedding-3-small`.

    `base_url` and `api_key` default to OPENAI_EMBEDDINGS_BASE_URL and OPENAI_EMBEDDINGS_API_KEY; if there is no such
    URL, to OPENAI_BASE_URL and OPENAI_API_KEY. Raises InvalidArgument for any other spec,
    and Unauthenticated if the endpoint is OpenAI and there is no key.
    """
    provider, _, model = spec.partition("/")
    if spec == "offline":
        return OfflineEmbedder()
    if provider == "openai" and model.strip():
        from archon_mesh.memory.long_term.embedders.openai import OpenAIEmbedder

        return CachedEmbedder(OpenAIEmbedder(model.strip(), base_url=base_url, api_key=api_key))
    raise InvalidArgument(f"unknown embedder {spec!r}: use 'offline' or 'openai/NAME'")
