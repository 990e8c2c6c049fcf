"""Search over published items: passages, ranks, and bounds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from archon.api.memory.v1 import memory_graph_service_pb2 as pb
from archon.errors import InvalidArgument, ResourceExhausted
from archon.registry import Graph
from archon_mesh.core.memory_item import MemoryItem
from archon_services.memory.api import graph_servicer
from archon_services.memory.api.graph_servicer import MemoryGraphServicer
from archon_services.memory.domain import item_search
from archon_services.memory.domain.item_search import MAX_PASSAGE, PASSAGE, search_items, split
from archon_services.memory.domain.items import StoredItem


def item(role: str, content: str, version: int = 1) -> StoredItem:
    return StoredItem(MemoryItem(role, content, 1_000.0, version))


ANSWERS = [
    item("designer", "# Storage\n\nOrders are kept in SQLite, in one file.\n\n# Screens\n\nThere are three screens."),
    item("requirements", "The app must synchronise lists across devices.\nIt has to work offline."),
    item("tester", "All twelve tests pass."),
]


def test_the_best_passage_of_each_item_is_found() -> None:
    [best, *rest] = search_items(ANSWERS, "Which database stores the orders?", 3, 0.0)
    assert best.stored.item.source_id == "designer"
    assert "SQLite" in best.passage
    assert 0 < best.score <= 1
    assert all(found.stored.item.source_id != "designer" for found in rest), "each item once"


def test_other_forms_and_typos_are_found() -> None:
    [found, *_] = search_items(ANSWERS, "syncronising acros devces", 3, 0.0)
    assert found.stored.item.source_id == "requirements"


def test_a_threshold_and_a_limit_hold() -> None:
    assert len(search_items(ANSWERS, "the app of the tests", 1, 0.0)) == 1
    assert search_items(ANSWERS, "quarterly revenue", 5, 0.5) == []
    assert search_items([], "anything", 5, 0.0) == []


def test_passages_are_whole_lines_and_have_all_of_the_text() -> None:
    text = "\n".join(f"line {number} of the text" for number in range(500))
    passages = list(split(text))
    assert "\n".join(passages) == text
    assert all(len(passage) <= PASSAGE for passage in passages)
    assert [len(passage) for passage in split("x" * 10_000)] == [MAX_PASSAGE, MAX_PASSAGE, 2_000]
    assert list(split(" \n\n ")) == []


def test_passages_of_a_search_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_search, "MAX_PASSAGES", 4)
    long = item("a", "\n".join("filler words without a topic here " * 20 for _ in range(50)))
    short = item("b", "The password is on the fridge.")
    [best, *_] = search_items([long, short], "password fridge", 2, 0.0)
    assert best.stored.item.source_id == "b", "a long item does not leave the others out"
    late = item("c", "\n".join(["filler words without a topic here " * 20] * 10) + "\nThe password is on the fridge.")
    assert all("fridge" not in found.passage for found in search_items([late], "password fridge", 2, 0.0))


class Store:
    """Holds the items of one scope."""

    async def items(self, tenant: str, scope: str) -> list[StoredItem]:
        return ANSWERS

    def watch(self, tenant: str, scope: str) -> AsyncGenerator[list[StoredItem], None]:
        raise NotImplementedError


async def test_searches_in_progress_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    leave, entered = threading.Event(), threading.Semaphore(0)

    def slow(*_: Any) -> list[Any]:
        entered.release()
        leave.wait(30)
        return []

    monkeypatch.setattr(graph_servicer, "search_items", slow)
    store: Any = Store()
    servicer = MemoryGraphServicer(store, lambda tenant: Graph())
    request = pb.SearchItemsRequest(scope="s", query="q")
    searches = [asyncio.create_task(servicer.SearchItems(request, None)) for _ in range(graph_servicer.MAX_SEARCHES)]
    try:
        for _ in searches:
            assert await asyncio.to_thread(entered.acquire, timeout=30)
        with pytest.raises(ResourceExhausted):
            await servicer.SearchItems(request, None)
        searches.pop().cancel()
        with pytest.raises(ResourceExhausted):
            await servicer.SearchItems(request, None)
    finally:
        leave.set()
    await asyncio.gather(*searches)


@pytest.mark.parametrize(
    "request_",
    [
        pb.SearchItemsRequest(scope="s"),
        pb.SearchItemsRequest(query="q"),
        pb.SearchItemsRequest(scope="s", query="q", limit=101),
        pb.SearchItemsRequest(scope="s", query="q", threshold=2),
        pb.SearchItemsRequest(scope="s", query="q", role="no role!"),
        pb.SearchItemsRequest(scope="s", query="q" * 20_000),
    ],
)
async def test_an_invalid_search_is_refused(request_: pb.SearchItemsRequest) -> None:
    store: Any = Store()
    with pytest.raises(InvalidArgument):
        await MemoryGraphServicer(store, lambda tenant: Graph()).SearchItems(request_, None)
