"""Reads the runs of reports, with the rights of the caller and within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.requests import Request

from archon.errors import DeadlineExceeded, Unavailable
from archon_mesh.recorded import RecordedRun, fetch_run
from archon_services.gateway.callers import ORCHESTRATOR, Callers
from archon_services.gateway.room import Gateway

LIST_RECORDS: Final = f"/{ORCHESTRATOR}/ListRunRecords"

SECONDS: Final = 30.0
"""The time in which the runs of a report are read."""

AT_A_TIME: Final = 2
"""Reports that are made at a time: each holds all events of its runs."""

MAX_WAITING: Final = 20
"""Further reports that wait for their turn."""

NO_RECORDS: Final = "Calls of models and tools are missing: the policy of the mesh does not let you read them."


class RunReader:
    """Reads runs for callers, as many reports at a time as memory allows."""

    def __init__(self, gateway: Gateway, callers: Callers) -> None:
        self._visitors, self._callers = gateway.visitors, callers
        self._turns = asyncio.Semaphore(AT_A_TIME)
        self._waiting = 0

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[None]:
        """Lets the caller of a request in, and holds a place for its report during the block. Raises Unauthenticated,
        PermissionDenied, and Unavailable if too many wait."""
        self._callers.enter(request.headers)
        if self._waiting >= MAX_WAITING:
            raise Unavailable("too many reports are being made", retry_delay=2.0)
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._turns.release()

    @property
    def may_read_records(self) -> bool:
        """Whether the policy lets the caller read recorded calls."""
        return self._visitors.may(self._callers.visitor.caller, LIST_RECORDS)

    async def read(self, run_id: str) -> RecordedRun:
        """Reads a run with its events and, if the caller may, its recorded calls. Raises UnknownRun, DeadlineExceeded,
        and the errors of calls."""
        try:
            async with asyncio.timeout(SECONDS):
                return await fetch_run(self._callers.runs, run_id, records=self.may_read_records)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded(f"the run could not be read within {SECONDS:g} s") from None
