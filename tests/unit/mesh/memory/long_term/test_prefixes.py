"""Prefixes follow from the name of a model."""

from __future__ import annotations

import pytest

from archon_mesh.memory.long_term.embedders.prefixes import Prefixes, prefixes_of


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("text-embedding-e5-base-v2", "query: ", "passage: "),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("google/embeddinggemma-300m", "task: search result | query: ", "title: none | text: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-m3", "", ""),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_a_model_gets_the_prefixes_of_its_card(model: str, query: str, passage: str) -> None:
    assert prefixes_of(model) == Prefixes(query, passage)


def test_a_model_with_instructions_gets_one_for_queries_only() -> None:
    for model in ("intfloat/multilingual-e5-large-instruct", "Qwen/Qwen3-Embedding-0.6B"):
        assert prefixes_of(model).query.startswith("Instruct: ")
        assert not prefixes_of(model).passage
