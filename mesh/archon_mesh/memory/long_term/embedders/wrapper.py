"""An embedder around another one."""

from __future__ import annotations

from archon_mesh.memory.long_term.embedders.base import Embedder


class EmbedderWrapper:
    """Has the name, dimensions and range of `embedder`, which it closes. Subclasses define `embed`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def range(self) -> tuple[float, float] | None:
        return self._embedder.range

    async def close(self) -> None:
        await self._embedder.close()
