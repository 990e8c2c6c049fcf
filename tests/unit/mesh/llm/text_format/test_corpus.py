"""The corpus of replies is what its README says."""

from __future__ import annotations

from tests.unit.mesh.llm.text_format.corpus import read_corpus


def test_the_corpus_has_at_least_200_recoverable_replies() -> None:
    entries = read_corpus()
    assert len({entry.id for entry in entries}) == len(entries)
    assert sum(entry.recoverable for entry in entries) >= 200
    assert sum(not entry.recoverable for entry in entries) >= 50
