"""The port of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from archon_mesh.memory.long_term.port import Vector


class Embedder(Protocol):
    """Turns texts into vectors of length 1 whose cosine tells how similar the texts are.

    Vectors of embedders with different names are never compared: the name tells everything that the vectors depend on.
    """

    @property
    def name(self) -> str:
        """The name, such as `offline/1` or `openai/text-embedding-3-small`."""
        ...

    @property
    def dimensions(self) -> int:
        """The number of dimensions; 0 until the first call if only the endpoint knows it."""
        ...

    @property
    def range(self) -> tuple[float, float] | None:
        """The cosines of unrelated texts, and of a question with its answer: scores 0 and 1. None if they must be
        measured, because they belong to a model that is not known."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Returns the vector of each text. Raises errors of `archon.errors`."""
        ...

    async def close(self) -> None:
        """Closes connections. Idempotent."""
        ...


@runtime_checkable
class QueryEmbedder(Embedder, Protocol):
    """An embedder of a model for which a query is another kind of text than its answers."""

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Returns the vector of each query. Raises errors of `archon.errors`."""
        ...


async def embed_queries(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """Returns the vectors of queries, by an embedder that may make no difference between them and other texts."""
    if isinstance(embedder, QueryEmbedder):
        return await embedder.embed_queries(texts)
    return await embedder.embed(texts)
