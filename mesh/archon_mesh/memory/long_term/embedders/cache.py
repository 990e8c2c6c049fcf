"""Keeps vectors of texts that are embedded again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

from archon_mesh.bounded_cache import BoundedCache
from archon_mesh.memory.long_term.embedders.base import Embedder, embed_queries
from archon_mesh.memory.long_term.embedders.wrapper import EmbedderWrapper
from archon_mesh.memory.long_term.port import Vector

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the vectors that are kept."""

_OVERHEAD: Final = 200

Embed = Callable[[Sequence[str]], Awaitable[list[Vector]]]


class CachedEmbedder(EmbedderWrapper):
    """An embedder around `embedder`, which it closes. The vector that was used longest ago is dropped first."""

    def __init__(self, embedder: Embedder, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(embedder)
        self._vectors: BoundedCache[bytes, Vector] = BoundedCache(max_entries, max_bytes)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, b"", self._embedder.embed)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, b"query\0", partial(embed_queries, self._embedder))

    async def _embed(self, texts: Sequence[str], kind: bytes, embed: Embed) -> list[Vector]:
        keys = [sha256(kind + text.encode(errors="surrogatepass")).digest() for text in texts]
        known = {key: vector for key in keys if (vector := self._vectors.get(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            for key, vector in zip(missing, await embed(list(missing.values())), strict=True):
                known[key] = vector
                self._vectors.put(key, vector, len(vector) * vector.itemsize + _OVERHEAD)
        return [known[key] for key in keys]
