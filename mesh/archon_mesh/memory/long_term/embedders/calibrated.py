"""Gives the cosines of any model the same meaning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from archon.errors import ArchonError, Unavailable
from archon.failure_kinds import EMBEDDING
from archon_mesh.memory.long_term.embedders.base import Embedder, embed_queries
from archon_mesh.memory.long_term.embedders.calibration import REVISION, Calibration, measure
from archon_mesh.memory.long_term.embedders.wrapper import EmbedderWrapper
from archon_mesh.memory.long_term.port import Vector

_log = logging.getLogger(__name__)

UNMEASURED: Final = (0.0, 1.0)
"""The range until the model is measured: before that there is no vector whose cosine it could be applied to."""


class CalibratedEmbedder(EmbedderWrapper):
    """An embedder around `embedder`, which it closes and whose vectors it centres. The model is measured before the
    first text is embedded, unless `load` returns an earlier measurement; `keep` stores it."""

    def __init__(
        self,
        embedder: Embedder,
        load: Callable[[str], Awaitable[str | None]],
        keep: Callable[[str, str], Awaitable[None]],
    ) -> None:
        super().__init__(embedder)
        self._load = load
        self._keep = keep
        self._calibration: Calibration | None = None
        self._measuring: asyncio.Task[Calibration] | None = None

    @property
    def name(self) -> str:
        return f"{self._embedder.name}/centred-{REVISION}"

    @property
    def range(self) -> tuple[float, float]:
        return UNMEASURED if self._calibration is None else self._calibration.range

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        calibration = await self.calibrated()
        return self._centred(await self._embedder.embed(texts), calibration.of_text)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        calibration = await self.calibrated()
        return self._centred(await embed_queries(self._embedder, texts), calibration.of_query)

    async def close(self) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.wait([self._measuring])
        await super().close()

    async def calibrated(self) -> Calibration:
        """Returns the measurement, made once for all callers: one that gives up does not end it for the others. Raises
        the embedder's errors; the next call tries again."""
        if self._calibration is None:
            if self._measuring is None or self._measuring.done():
                self._measuring = asyncio.create_task(self._measure())
                self._measuring.add_done_callback(_retrieve)
            self._calibration = await asyncio.shield(self._measuring)
        return self._calibration

    async def _measure(self) -> Calibration:
        try:
            if (kept := await self._load(self.name)) is not None:
                return Calibration.from_json(kept)
        except (ArchonError, ValueError, TypeError) as error:
            _log.warning("the embedder %s is measured again: %s", self._embedder.name, error)
        calibration = await measure(self._embedder)
        low, high = calibration.range
        _log.info("measured the embedder %s: scores 0 and 1 are %.2f and %.2f", self._embedder.name, low, high)
        try:
            await self._keep(self.name, calibration.to_json())
        except ArchonError as error:
            _log.warning("the measurement of the embedder %s is not kept: %s", self._embedder.name, error)
        return calibration

    def _centred(self, vectors: Sequence[Vector], centre: Callable[[Vector], Vector]) -> list[Vector]:
        try:
            return [centre(vector) for vector in vectors]
        except ValueError:
            raise Unavailable(
                f"the embedder {self._embedder.name} returns vectors of other dimensions than before", kind=EMBEDDING
            ) from None


def _retrieve(task: asyncio.Task[Calibration]) -> None:
    if not task.cancelled():
        task.exception()  # mark it as retrieved, in case all callers are gone
