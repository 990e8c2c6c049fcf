"""Lists are read page by page, to their end or to a limit."""

from __future__ import annotations

import pytest

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as pb
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import Unavailable
from archon.pages import LARGEST, listed, pages


class Runs:
    """A service of `count` runs, on pages of at most `most`. `asked` has the size and the token of each request."""

    def __init__(self, count: int, most: int, fails_at: str = "-") -> None:
        self.asked: list[tuple[int, str]] = []
        self._count, self._most, self._fails_at = count, most, fails_at

    async def __call__(self, request: pb.ListRunsRequest, *, timeout: float) -> pb.ListRunsResponse:
        assert timeout == 3.0
        self.asked.append((request.page_size, request.page_token))
        if request.page_token == self._fails_at:
            raise Unavailable("gone")
        first = int(request.page_token or 0)
        end = min(first + min(self._most, request.page_size or self._most), self._count)
        runs = [run_pb2.Run(run_id=str(number)) for number in range(first, end)]
        return pb.ListRunsResponse(runs=runs, next_page_token=str(end) if end < self._count else "")


async def read(runs: Runs, limit: int | None = None) -> list[str]:
    return await listed(runs, pb.ListRunsRequest(), "runs", lambda run: str(run.run_id), timeout=3.0, limit=limit)


async def test_a_list_is_read_to_its_end() -> None:
    runs = Runs(5, 2)
    assert await read(runs) == ["0", "1", "2", "3", "4"]
    assert runs.asked == [(0, ""), (0, "2"), (0, "4")]


async def test_a_limit_is_the_size_of_the_last_page() -> None:
    runs = Runs(10, 4)
    assert await read(runs, limit=7) == ["0", "1", "2", "3", "4", "5", "6"]
    assert runs.asked == [(7, ""), (3, "4")]
    large = Runs(3, LARGEST)
    assert len(await read(large, limit=5_000)) == 3
    assert large.asked == [(LARGEST, "")]


async def test_a_limit_of_zero_asks_for_nothing() -> None:
    runs = Runs(1, 1)
    assert (await read(runs, limit=0), runs.asked) == ([], [])


async def test_pages_before_an_error_are_given() -> None:
    runs, seen = Runs(4, 2, fails_at="2"), []
    with pytest.raises(Unavailable):
        async for page in pages(runs, pb.ListRunsRequest(), timeout=3.0):
            seen += [run.run_id for run in page.runs]
    assert seen == ["0", "1"]
