"""The events of a run, as commands read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.client import Client
from archon.errors import RunExpired
from archon_services.cli.errors import CliError
from archon_services.cli.target import run as target
from archon_services.cli.target.run import find_run_id, read_events

RUN = run_pb2.Run(run_id="run-1", last_seq=3)


class Events:
    """A client whose run has these events; after the last one it is silent."""

    def __init__(self, *seqs: int, error: Exception | None = None) -> None:
        self._seqs = seqs
        self._error = error

    async def watch(self, run_id: str, **_: Any) -> AsyncGenerator[run_pb2.RunEvent, None]:
        for seq in self._seqs:
            yield run_pb2.RunEvent(run_id=run_id, seq=seq)
        if self._error is not None:
            raise self._error
        await asyncio.Event().wait()


async def read(client: Events) -> tuple[bool, list[int]]:
    seqs: list[int] = []
    return await read_events(cast(Client, client), RUN, lambda event: seqs.append(event.seq)), seqs


async def test_events_are_read_up_to_the_present_state() -> None:
    assert await read(Events(1, 2, 3, 4)) == (True, [1, 2, 3])


async def test_deleted_events_are_not_there() -> None:
    assert await read(Events(error=RunExpired("gone"))) == (False, [])


async def test_events_that_do_not_come_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_PATIENCE", 0.01)
    with pytest.raises(CliError, match="the events of run run-1 have not come within"):
        await read(Events(1, 2))


class Runs:
    """A client of an orchestrator with this many runs; `asked` are the limits of the lists that it was asked for."""

    def __init__(self, count: int) -> None:
        self.ids = [f"{1 << 60 | number << 20:032x}" for number in range(count, 0, -1)]
        self.asked: list[int] = []

    async def list_runs(self, *, limit: int) -> list[run_pb2.Run]:
        self.asked.append(limit)
        return [run_pb2.Run(run_id=run_id) for run_id in self.ids[:limit]]

    async def find(self, name: str) -> str:
        return await find_run_id(cast(Client, self), name)


async def test_a_full_id_is_looked_up_by_no_list() -> None:
    runs = Runs(0)
    assert await runs.find("01a206b32d0200000ef2a6c30a4bc424") == "01a206b32d0200000ef2a6c30a4bc424"
    assert runs.asked == []


async def test_a_prefix_of_a_recent_run_needs_one_short_list() -> None:
    runs = Runs(20_000)
    assert await runs.find(runs.ids[100][:28]) == runs.ids[100]
    assert runs.asked == [200]


async def test_a_prefix_of_an_older_run_is_found_among_the_newest() -> None:
    runs = Runs(20_000)
    assert await runs.find(runs.ids[9_000][:28]) == runs.ids[9_000]


async def test_a_prefix_of_several_runs_is_ambiguous_however_old() -> None:
    runs = Runs(20_000)
    with pytest.raises(CliError, match=r"10,000 run ids start with '0000000000000000'"):
        await runs.find("0" * 16)


async def test_a_prefix_of_a_run_that_is_too_old_says_so() -> None:
    runs = Runs(20_000)
    with pytest.raises(CliError, match="no run id among the newest 10,000 starts with") as error:
        await runs.find(runs.ids[-1][:28])
    assert "full id" in error.value.hint


async def test_a_prefix_of_no_run_is_not_found() -> None:
    with pytest.raises(CliError, match=r"^no run id starts with 'abc'$"):
        await Runs(3).find("abc")
