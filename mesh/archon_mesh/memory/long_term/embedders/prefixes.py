"""The prefixes that models of embeddings expect before a text: many are trained to tell queries from answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefix of a query, and the prefix of a text that may answer it."""

    query: str = ""
    passage: str = ""


_SEARCH: Final = "Represent this sentence for searching relevant passages: "
_INSTRUCT: Final = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "  # of their cards
)

_FAMILIES: Final = (
    (("e5", "instruct"), Prefixes(_INSTRUCT)),
    (("e5-mistral",), Prefixes(_INSTRUCT)),
    (("qwen3-embedding",), Prefixes(_INSTRUCT)),
    (("gte-qwen2",), Prefixes(_INSTRUCT)),
    (("e5-",), Prefixes("query: ", "passage: ")),
    (("nomic-embed",), Prefixes("search_query: ", "search_document: ")),
    (("embeddinggemma",), Prefixes("task: search result | query: ", "title: none | text: ")),
    (("embedding-gemma",), Prefixes("task: search result | query: ", "title: none | text: ")),
    (("arctic-embed", "v2"), Prefixes("query: ")),
    (("arctic-embed2",), Prefixes("query: ")),
    (("arctic-embed",), Prefixes(_SEARCH)),
    (("mxbai-embed",), Prefixes(_SEARCH)),
    (("bge-", "-en"), Prefixes(_SEARCH)),
    (("bge-", "-zh"), Prefixes("为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001 - as the card writes it
)
"""Parts of a model's name, and the prefixes that its card tells. The first entry all of whose parts are in it counts;
other models, such as OpenAI's, BGE-M3 and MiniLM, take texts as they are."""


def prefixes_of(model: str) -> Prefixes:
    """Returns the prefixes for a model by its name, such as `intfloat/multilingual-e5-small`."""
    name = model.lower()
    return next((prefixes for parts, prefixes in _FAMILIES if all(part in name for part in parts)), Prefixes())
