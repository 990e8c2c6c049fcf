"""What docs/memory.md states about retrieval is what the labelled set gives."""

from __future__ import annotations

import uuid

import pytest

from archon_mesh.memory.long_term.weaviate import WeaviateLongTermStore
from tests.fixtures.weaviate import running_weaviate
from tests.quality.long_term.measure import BEGIN, END, PAGE, Recall, measure, measure_store, table


@pytest.fixture(scope="module")
async def final() -> Recall:
    """The figures of the half on which nothing is tuned."""
    return await measure("final")


def test_the_page_states_the_measured_table(final: Recall) -> None:
    stated = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert stated == table(final).strip(), "run python -m tests.quality.long_term.measure --final"


def test_hybrid_finds_nine_of_ten_answers_in_five_entries(final: Recall) -> None:
    assert final["hybrid"]["all"] >= 0.90


def test_hybrid_is_at_least_as_good_as_each_part(final: Recall) -> None:
    assert final["hybrid"]["all"] >= max(final["BM25 alone"]["all"], final["vectors alone"]["all"])


@pytest.mark.search
async def test_hybrid_is_as_good_with_weaviate() -> None:
    with running_weaviate() as server:
        async with WeaviateLongTermStore(server.url) as store:
            recall = await measure_store(store, "tuning", lambda key: str(uuid.uuid5(uuid.NAMESPACE_OID, key)))
    assert recall["hybrid"]["all"] >= 0.90
    assert recall["hybrid"]["all"] >= max(recall["BM25 alone"]["all"], recall["vectors alone"]["all"])
