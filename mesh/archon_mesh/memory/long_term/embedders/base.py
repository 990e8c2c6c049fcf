"""The port of embedders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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
    def range(self) -> tuple[float, float]:
        """The cosine of unrelated texts and that of a question with its answer: scores 0 and 1."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Returns the vector of each text. Raises errors of `archon.errors`."""
        ...

    async def close(self) -> None:
        """Closes connections. Idempotent."""
        ...
