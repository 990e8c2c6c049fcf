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
from archon_services.cli.target.run import read_events

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
