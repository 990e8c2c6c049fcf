"""Lets no fault of an embedder reach the memories that it embeds."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import isfinite

from archon.errors import ArchonError, Unavailable
from archon.failure_kinds import EMBEDDING
from archon_mesh.memory.long_term.embedders.base import embed_queries
from archon_mesh.memory.long_term.embedders.wrapper import EmbedderWrapper
from archon_mesh.memory.long_term.port import Vector

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]


class CheckedEmbedder(EmbedderWrapper):
    """An embedder around `embedder`, which it closes. Whatever that raises is an error of `archon.errors`, and so are
    vectors that are too many, too few, empty, of different lengths or not finite."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Raises the embedder's error if that is an ArchonError or a TimeoutError, else Unavailable."""
        return await self._checked(self._embedder.embed, texts)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Raises the errors of `embed`."""
        return await self._checked(partial(embed_queries, self._embedder), texts)

    async def _checked(self, embed: Embed, texts: Sequence[str]) -> list[Vector]:
        try:
            return _checked(await embed(texts), len(texts))
        except (ArchonError, TimeoutError, KeyboardInterrupt):
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise self._failed("CancelledError") from None
        except BaseException as error:  # a panic of an extension in Rust is no Exception
            raise self._failed(f"{type(error).__name__}: {error}") from error

    def _failed(self, reason: str) -> Unavailable:
        return Unavailable(f"the embedder {self.name} failed: {reason}", kind=EMBEDDING)


def _checked(vectors: Sequence[Sequence[float]], count: int) -> list[Vector]:
    """Returns the vectors as arrays of floats. Raises ValueError unless there are `count` finite vectors of one size,
    and TypeError if an element is no number."""
    read = [vector if isinstance(vector, array) else array("f", vector) for vector in vectors]
    sizes = sorted({len(vector) for vector in read})
    if len(read) != count:
        raise ValueError(f"{len(read)} vectors for {count} texts")
    if count and (len(sizes) != 1 or sizes[0] == 0):
        raise ValueError(f"vectors of {' and '.join(map(str, sizes))} dimensions")
    if not all(isfinite(sum(vector)) for vector in read):
        raise ValueError("a vector is not finite")
    return read
