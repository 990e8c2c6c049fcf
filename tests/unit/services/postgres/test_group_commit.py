"""Group commit: one result per item, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from archon.errors import ArchonError, InvalidArgument, Unavailable
from archon_services.postgres import group_commit
from archon_services.postgres.connections import Connection
from archon_services.postgres.group_commit import GroupCommit
from tests.fixtures.virtual_time import VirtualTime

Send = Callable[[Connection, Sequence[str]], Awaitable[Sequence[str | ArchonError]]]


class FakeConnection:
    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None: ...

    async def close(self, timeout: float) -> None: ...


async def dial() -> Connection:
    return cast(Connection, FakeConnection())


def commits(send: Send) -> GroupCommit[str, str]:
    return GroupCommit[str, str](dial, send, id, address="host/db")


async def test_items_that_wait_together_go_in_one_group() -> None:
    groups: list[list[str]] = []

    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        groups.append(list(items))
        await asyncio.sleep(0)
        return [item.upper() for item in items]

    group_commits = commits(send)
    group_commits.start()
    assert await asyncio.gather(*map(group_commits.do, "abc")) == ["A", "B", "C"]
    assert groups == [["a", "b", "c"]]
    await group_commits.close()


async def test_items_of_equal_keys_go_in_separate_groups() -> None:
    groups: list[list[str]] = []

    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        groups.append(list(items))
        return items

    group_commits = GroupCommit[str, str](dial, send, lambda item: item[0], address="host/db")
    group_commits.start()
    assert await asyncio.gather(*map(group_commits.do, ["a1", "a2", "b1"])) == ["a1", "a2", "b1"]
    assert groups == [["a1", "b1"], ["a2"]]
    await group_commits.close()


async def test_refused_item_affects_no_other_of_its_group() -> None:
    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        if "bad" in items:
            raise ValueError("cannot encode")
        return items

    group_commits = commits(send)
    group_commits.start()
    results = await asyncio.gather(*map(group_commits.do, ["a", "bad", "b"]), return_exceptions=True)
    assert (results[0], results[2]) == ("a", "b")
    assert isinstance(results[1], InvalidArgument)
    await group_commits.close()


async def test_every_item_fails_if_the_deadline_passes_in_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualTime()
    monkeypatch.setattr(group_commit, "time", clock)

    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        if clock.now < 1_010.0:
            clock.now = 1_009.9
            asyncio.get_running_loop().call_later(0.01, setattr, clock, "now", 1_010.5)
            raise ConnectionResetError
        return items

    group_commits = commits(send)
    group_commits.start()
    results = await asyncio.gather(*map(group_commits.do, "ab"), return_exceptions=True)
    assert all(isinstance(result, Unavailable) and "is unknown" in str(result) for result in results)
    assert await group_commits.do("c") == "c"
    await group_commits.close()


async def test_wrong_number_of_results_fails_the_group_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        return [] if "lost" in items else items

    group_commits = commits(send)
    group_commits.start()
    with pytest.raises(Unavailable):
        await group_commits.do("lost")
    assert await group_commits.do("a") == "a"
    await group_commits.close()


async def test_closed_group_commit_is_unavailable() -> None:
    async def send(_: Any, items: Sequence[str]) -> Sequence[str]:
        return items

    group_commits = commits(send)
    with pytest.raises(Unavailable):
        await group_commits.do("a")
    group_commits.start()
    await group_commits.close()
    await group_commits.close()
    with pytest.raises(Unavailable):
        await group_commits.do("a")
