"""A client of any release: submits runs at a steady rate, watches each from its first event to its last, and writes a line
of JSON for all that it learns, until, after SIGTERM, its runs have ended. Of each five runs, the second asks a person,
whom this client is as well, and the fourth is cancelled.

UPGRADE_ORCHESTRATORS are the addresses (host:port, separated by commas), which it uses in turn.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

from archon.client import Client, answer_text
from archon.errors import ArchonError

NAME: Final = os.environ["UPGRADE_LOAD"]
INTERVAL: Final = float(os.environ["UPGRADE_INTERVAL"])
ROLES: Final = os.environ["UPGRADE_ROLES"].split(",")
KINDS: Final = ("plain", "ask", "plain", "cancel", "plain")
GIVES_UP_AFTER: Final = 120.0
PAUSE: Final = 0.2
"""Seconds before the next replica is asked."""


class Load:
    """The runs of this process. `out` receives the lines."""

    def __init__(self, clients: list[Client], out: Any) -> None:
        self._clients = itertools.cycle(clients)
        self._out = out
        self._runs: set[asyncio.Task[None]] = set()

    async def submit_until(self, stopped: asyncio.Event) -> None:
        """Submits a run each INTERVAL; after `stopped`, waits for the end of all."""
        for number in itertools.count():
            kind = KINDS[number % len(KINDS)]
            task = asyncio.create_task(self._run(f"{kind}-{NAME}-{number}"))
            self._runs.add(task)
            task.add_done_callback(self._runs.discard)
            try:
                await asyncio.wait_for(stopped.wait(), INTERVAL)
                break
            except TimeoutError:
                continue
        await asyncio.gather(*self._runs)

    async def _run(self, name: str) -> None:
        try:
            async with asyncio.timeout(GIVES_UP_AFTER):
                run_id = await self._submit(name)
                self._write(submitted=name, run_id=run_id)
                await self._watch(run_id, cancels=name.startswith("cancel"))
                run = await self._call(run_id, lambda client: client.get(run_id))
                message = getattr(run, "proto", run)  # earlier releases return the message itself
                self._write(ended=name, run_id=run_id, state=int(message.state), answer=answer_text(run))
        except Exception as error:  # noqa: BLE001 - the test reads it
            self._write(failed=name, error=f"{type(error).__name__}: {error}")

    async def _submit(self, name: str) -> str:
        """Submits until a replica accepts, always under the same request id."""
        while True:
            try:
                handle = await next(self._clients).submit(name, roles=ROLES, request_id=name)
            except ArchonError as error:
                self._write(retried=name, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE)
            else:
                return str(handle.run_id)

    async def _watch(self, run_id: str, *, cancels: bool) -> None:
        """Watches to the end, at one replica after the other: after an error, from the last event on. Answers the run's
        question, or cancels it once a task was dispatched."""
        last = 0
        while True:
            try:
                async with aclosing(next(self._clients).watch(run_id, last, patience=0.0)) as events:
                    async for event in events:
                        if event.seq:
                            last = event.seq
                            self._write(event=run_id, seq=last)
                        await self._act(run_id, event, cancels=cancels)
                return
            except ArchonError as error:
                self._write(resumed=run_id, after=last, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE)

    async def _act(self, run_id: str, event: Any, *, cancels: bool) -> None:
        """Answers the question of an event, or cancels the run at its first dispatch."""
        message = getattr(event, "proto", event)  # earlier releases yield the message itself
        arm = message.WhichOneof("event")
        if arm == "input_requested":
            input_id = message.input_requested.input_id
            await self._call(run_id, lambda client: client.respond(run_id, input_id, "!"))
        elif arm == "dispatched" and cancels:
            await self._call(run_id, lambda client: client.cancel(run_id, "no longer needed"))

    async def _call(self, run_id: str, call: Callable[[Client], Awaitable[Any]]) -> Any:
        """Calls one replica after the other until one replies."""
        while True:
            try:
                return await call(next(self._clients))
            except ArchonError as error:
                self._write(retried=run_id, error=f"{type(error).__name__}: {error}")
                await asyncio.sleep(PAUSE)

    def _write(self, **line: object) -> None:
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


async def main() -> int:
    """Runs the load."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    clients = [Client(address) for address in os.environ["UPGRADE_ORCHESTRATORS"].split(",")]
    with Path(os.environ["UPGRADE_LINES"]).open("a") as out:  # noqa: ASYNC230 - a line at a time
        Path(os.environ["ARCHON_READY_FILE"]).write_text("ready")  # noqa: ASYNC240
        await Load(clients, out).submit_until(stopped)
    for client in clients:
        await client.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
