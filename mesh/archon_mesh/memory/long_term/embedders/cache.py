"""Keeps vectors of texts that are embedded again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Final

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
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._vectors: OrderedDict[bytes, Vector] = OrderedDict()
        self._bytes = 0

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, b"", self._embedder.embed)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, b"query\0", partial(embed_queries, self._embedder))

    async def _embed(self, texts: Sequence[str], kind: bytes, embed: Embed) -> list[Vector]:
        keys = [sha256(kind + text.encode(errors="surrogatepass")).digest() for text in texts]
        known = {key: self._vectors[key] for key in keys if key in self._vectors}
        for key in known:
            self._vectors.move_to_end(key)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            for key, vector in zip(missing, await embed(list(missing.values())), strict=True):
                known[key] = vector
                self._keep(key, vector)
        return [known[key] for key in keys]

    def _keep(self, key: bytes, vector: Vector) -> None:
        if (replaced := self._vectors.pop(key, None)) is not None:
            self._bytes -= _size(replaced)
        self._vectors[key] = vector
        self._bytes += _size(vector)
        while self._vectors and (len(self._vectors) > self._max_entries or self._bytes > self._max_bytes):
            self._bytes -= _size(self._vectors.popitem(last=False)[1])


def _size(vector: Vector) -> int:
    return len(vector) * vector.itemsize + _OVERHEAD
