"""Searching the web through a real endpoint."""

from __future__ import annotations

import json

import pytest

from archon.errors import ArchonError, FailedPrecondition, InvalidArgument, ResourceExhausted, Unavailable
from archon_mesh.tools.builtin import WebSearch
from archon_mesh.tools.builtin.web.search import MAX_ANSWER_BYTES
from tests.fixtures.web_server import Page, WebServer

JSON = "application/json"


def answer(*results: object) -> Page:
    return Page(json.dumps({"query": "sea", "results": results}), content_type=JSON)


async def test_search_returns_title_snippet_and_url() -> None:
    results = [
        {"title": f"T{n}", "content": f"about {n}", "url": f"https://a.example/{n}", "score": n} for n in range(9)
    ]
    async with WebServer({"/search": answer(*results)}) as server:
        found = await WebSearch(f"{server.url}/search?language=en").execute(query="sea & wind")
        assert found[0] == {"title": "T0", "snippet": "about 0", "url": "https://a.example/0"}
        assert len(found) == 5
        assert server.requests[0][0] == "/search?language=en&q=sea+%26+wind&format=json"


async def test_results_without_an_address_are_left_out_long_ones_cut() -> None:
    results = [
        "text",
        None,
        {"title": "no url"},
        {"url": "javascript:alert(1)"},
        {"url": 5},
        {"url": "https://a.example/" + "x" * 5000},
        {"title": "t" * 5000, "content": None, "url": "https://b.example/"},
        {"title": None, "content": "c" * 5000, "url": "http://c.example/"},
    ]
    async with WebServer({"/": answer(*results)}) as server:
        found = await WebSearch(server.url).execute(query="sea")
    assert [(len(each["title"]), len(each["snippet"]), each["url"]) for each in found] == [
        (300, 0, "https://b.example/"),
        (0, 1000, "http://c.example/"),
    ]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Page("<html>", content_type="text/html"), FailedPrecondition),
        (Page("{", content_type=JSON), FailedPrecondition),
        (Page("[" * 100_000, content_type=JSON), FailedPrecondition),
        (Page('{"results": {}}', content_type=JSON), FailedPrecondition),
        (Page("[]", content_type=JSON), FailedPrecondition),
        (Page(" " * (MAX_ANSWER_BYTES + 1), content_type=JSON), ResourceExhausted),
        (Page(status=302, headers={"Location": "/elsewhere"}), FailedPrecondition),
        (Page("slow down", status=429), ResourceExhausted),
        (Page("down", status=502), Unavailable),
    ],
)
async def test_answer_that_holds_no_results_is_a_typed_error(page: Page, expected: type[ArchonError]) -> None:
    async with WebServer({"/": page}) as server:
        with pytest.raises(expected):
            await WebSearch(server.url).execute(query="sea")
        assert [path.partition("?")[0] for path, _ in server.requests] == ["/"]


async def test_endpoint_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with WebServer({"/": answer()}) as server:
        monkeypatch.setenv("ARCHON_SEARCH_URL", server.url)
        assert await WebSearch().execute(query="sea") == []


def test_missing_endpoint_is_an_error_when_the_tool_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHON_SEARCH_URL", raising=False)
    with pytest.raises(InvalidArgument, match="no search endpoint: pass `endpoint`, or set ARCHON_SEARCH_URL"):
        WebSearch()
    for endpoint in ("search.example", "file:///etc/passwd", "https://user:pass@search.example/"):
        with pytest.raises(InvalidArgument, match="invalid search endpoint") as raised:
            WebSearch(endpoint)
        assert "pass@" not in str(raised.value)
