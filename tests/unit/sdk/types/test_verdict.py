"""The verdict of an arbiter in the metadata of an answer."""

from __future__ import annotations

import pytest

from archon.types import Verdict
from archon.types.verdict import MAX_NOTE


def test_a_verdict_is_read_from_its_metadata() -> None:
    verdict = Verdict("model", "s-2", "it is exact", {"method": "2 answers still differ"}, {"s-1": "14"})
    assert Verdict.in_metadata({"other": "x", **verdict.metadata}) == verdict
    assert Verdict("person").metadata == {"dev.archon.verdict/way": "person"}


def test_long_texts_of_a_verdict_are_cut() -> None:
    metadata = Verdict("model", "s-1", "x" * 10_000, {"verify": "y" * 10_000}).metadata
    assert sum(map(len, metadata.values())) < 2 * MAX_NOTE + 100


@pytest.mark.parametrize(
    "metadata",
    [{}, {"dev.archon.verdict/winner": "s-1"}, {"dev.archon.verdict/way": ""}],
)
def test_other_metadata_has_no_verdict(metadata: dict[str, str]) -> None:
    assert Verdict.in_metadata(metadata) is None


def test_damaged_notes_of_a_verdict_are_left_out() -> None:
    verdict = Verdict.in_metadata({"dev.archon.verdict/way": "model", "dev.archon.verdict/tried": '{"a": 1, "b": "x"}'})
    assert verdict == Verdict("model", tried={"b": "x"})
