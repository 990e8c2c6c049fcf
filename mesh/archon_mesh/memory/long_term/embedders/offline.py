"""An embedder without a model: hashed words and character n-grams. It knows no synonyms; it finds other forms of a
word, and misspelt ones.

Source: Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import log, sqrt
from typing import Final
from zlib import crc32

from archon_mesh.core.words import FUNCTION_WORDS, ngrams, stem, words
from archon_mesh.memory.long_term.port import Vector

DIMENSIONS: Final = 512

FUNCTION_WORD: Final = 0.05
"""Weight of a function word; 1 is the weight of others."""

STEM: Final = 0.7
NGRAMS: Final = 1.0
PAIR: Final = 0.3
"""Weights of a word's stem, of all its n-grams together, and of two neighbouring words."""

SIZES: Final = (3, 4)
_CHUNK: Final = 256
"""Texts that are embedded on one thread at a time."""


class OfflineEmbedder:
    """Embeds without a network, the same on every machine."""

    name: str = "offline/1"
    dimensions: int = DIMENSIONS
    range: tuple[float, float] = (0.05, 0.55)

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        if sum(map(len, texts)) < 2_000:
            return [embed_text(text) for text in texts]
        vectors: list[Vector] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = texts[start : start + _CHUNK]
            vectors += await asyncio.to_thread(lambda chunk=chunk: [embed_text(text) for text in chunk])  # type: ignore[misc]
        return vectors

    async def close(self) -> None:
        pass


def embed_text(text: str) -> Vector:
    """Returns the vector of a text; zeros if it has no word."""
    sequence = words(text)
    totals = [0.0] * DIMENSIONS
    for word, count in Counter(sequence).items():
        weight = (1 + log(count)) * (FUNCTION_WORD if word in FUNCTION_WORDS else 1.0)
        for index, value in _features(word):
            totals[index] += weight * value
    topical = [stem(word) for word in sequence if word not in FUNCTION_WORDS]
    for pair in set(pairwise(topical)):
        index, sign = _place("2" + " ".join(pair))
        totals[index] += PAIR * sign
    length = sqrt(sum(value * value for value in totals))
    return array("f", totals if length == 0 else [value / length for value in totals])


@lru_cache(maxsize=4_000)
def _features(word: str) -> tuple[tuple[int, float], ...]:
    """Returns the dimensions and values of one word."""
    weighted = [("1" + stem(word), STEM)]
    pieces = list(ngrams(word, SIZES))
    if pieces:
        each = NGRAMS / sqrt(len(pieces))
        weighted += [("n" + piece, each) for piece in pieces]
    values: dict[int, float] = {}
    for feature, weight in weighted:
        index, sign = _place(feature)
        values[index] = values.get(index, 0.0) + sign * weight
    return tuple(values.items())


def _place(feature: str) -> tuple[int, int]:
    code = crc32(feature.encode())
    return code % DIMENSIONS, 1 if code & 0x8000_0000 else -1
