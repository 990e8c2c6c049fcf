"""The offline embedder: similar texts are near, and vectors are the same everywhere."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys

from archon_mesh.memory.long_term.embedders import OfflineEmbedder
from archon_mesh.memory.long_term.embedders.calibration import cosine
from archon_mesh.memory.long_term.embedders.offline import DIMENSIONS, embed_text


def test_vectors_have_length_one() -> None:
    vector = embed_text("Ana prefers tea")
    assert len(vector) == DIMENSIONS
    assert math.isclose(cosine(vector, vector), 1, abs_tol=1e-5)
    assert not any(embed_text("?!"))


def test_other_forms_and_typos_are_nearer_than_others() -> None:
    query = embed_text("When does my passport expire?")
    for similar in ("wen dose my pasport expire", "the passports expired"):
        assert cosine(query, embed_text(similar)) > 2 * abs(cosine(query, embed_text("a table at the restaurant")))


def test_function_words_hardly_count() -> None:
    assert cosine(embed_text("what is it that the cat has"), embed_text("cat")) > 0.8


def test_a_vector_is_the_same_in_another_process() -> None:
    program = (
        "import hashlib; from archon_mesh.memory.long_term.embedders.offline import embed_text;"
        "print(hashlib.sha256(embed_text('caf\\u00e9 42 prefers').tobytes()).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},  # this process has another
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == hashlib.sha256(embed_text("caf\u00e9 42 prefers").tobytes()).hexdigest()


async def test_many_texts_are_embedded_in_order() -> None:
    texts = [f"text number {number} of a long list of texts" for number in range(300)]
    vectors = await OfflineEmbedder().embed(texts)
    assert vectors[123] == embed_text(texts[123])
    assert len(vectors) == 300
