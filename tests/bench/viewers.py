"""python -m tests.bench.viewers: CPU of the orchestrator and of the HTTP gateway while a run is watched, by number of
viewers, over server-sent events and over streams of Connect.

A role writes text deltas, so many a second. Each viewer has a connection of its own and reads all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import httpx
from rich.console import Console
from rich.table import Table

from archon import AgentServer, TaskContext
from archon.agent import AgentSettings
from archon.client import Client
from archon_services.testing.mesh import LocalMesh
from tests.bench.usage import cpu_seconds
from tests.fixtures.waiting import until

WATCH: Final = "/archon.api.orchestrator.v1.OrchestratorService/WatchRun"
OPTIONAL_ROOMS: Final = ("/a2a", "/mcp", "/agui")
"""Paths of the rooms that the gateway loads later, or when they are asked for."""

CONNECTED_WITHIN: Final = 30.0
"""Seconds until each viewer reads."""


class Writer:
    """The role `writer`, which writes `rate` deltas a second until `stop` is set."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.written = 0
        self.stop = asyncio.Event()

    async def handle(self, task: TaskContext) -> str:
        """Writes until it is stopped."""
        while not self.stop.is_set():
            task.write("a few words of a text, ")
            self.written += 1
            await asyncio.sleep(1 / self._rate)
        return "done"


class Viewer:
    """A connection to the gateway that reads a stream."""

    def __init__(self, address: str, token: str, run_id: str, *, connect: bool) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.bytes = 0
        authorization = f"Host: {address}\r\nAuthorization: Bearer {token}\r\n"
        if connect:
            message = json.dumps({"runId": run_id}).encode()
            body = b"\0" + len(message).to_bytes(4, "big") + message
            fields = f"{authorization}Content-Type: application/connect+json\r\nContent-Length: {len(body)}\r\n"
            self._request = f"POST {WATCH} HTTP/1.1\r\n{fields}\r\n".encode() + body
        else:
            self._request = f"GET /events/runs/{run_id} HTTP/1.1\r\n{authorization}\r\n".encode()

    def reads_beyond(self, size: int) -> bool:
        """Returns whether it has read more than so many bytes."""
        return self.bytes > size

    async def read(self) -> None:
        """Reads until the stream ends, or the task is cancelled."""
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise SystemExit(head.decode())
            while piece := await reader.read(65_536):
                self.bytes += len(piece)
        finally:
            writer.close()


async def load_rooms(gateway: str) -> None:
    """Makes the gateway load its optional rooms, so that no measurement has a part of it: a request waits for its room."""
    async with httpx.AsyncClient(base_url=f"http://{gateway}", timeout=60.0) as http:
        for path in OPTIONAL_ROOMS:
            await http.get(path)


async def reading(viewers: list[Viewer]) -> None:
    """Waits until each viewer reads what is written now: all have the events before it."""
    for viewer in viewers:
        for _ in range(2):
            await until(partial(viewer.reads_beyond, viewer.bytes), CONNECTED_WITHIN)


async def measure(mesh: LocalMesh, viewers: int, rate: float, seconds: float, *, connect: bool) -> tuple[float, ...]:
    """Returns the CPU of the orchestrator and the gateway, in percent of a core, the events per second, and the bytes
    per second of a viewer."""
    pids = {process.name: process.pid for process in mesh.state.processes}
    token = mesh.user_token()
    writer = Writer(rate)
    settings = AgentSettings(registry=mesh.state.address("registry"))
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(mesh.orchestrator, credentials=mesh.credentials))
        await stack.enter_async_context(AgentServer("writer", handler=writer.handle, settings=settings))
        run = await client.submit("write", roles=["writer"])
        watching = [
            Viewer(mesh.state.address("gateway"), token, run.run.run_id, connect=connect) for _ in range(viewers)
        ]
        tasks = [asyncio.create_task(viewer.read()) for viewer in watching]
        try:
            await reading(watching)
            names = ("orchestrator", "gateway")
            before, began = [cpu_seconds(pids[name]) for name in names], time.monotonic()
            read, written = sum(viewer.bytes for viewer in watching), writer.written
            await asyncio.sleep(seconds)
            passed = time.monotonic() - began
            after = [cpu_seconds(pids[name]) for name in names]
            if ended := [task for task in tasks if task.done()]:
                raise SystemExit(f"{len(ended)} of {viewers} viewers were cut off")
            used = [100 * (end - begin) / passed for begin, end in zip(before, after, strict=True)]
            read = sum(viewer.bytes for viewer in watching) - read
            return used[0], used[1], (writer.written - written) / passed, read / passed / max(1, viewers)
        finally:
            writer.stop.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def report(mesh: LocalMesh, numbers: list[int], rate: float, seconds: float) -> None:
    """Prints the table."""
    await load_rooms(mesh.state.address("gateway"))
    table = Table("viewers", "over", "orchestrator, % of a core", "gateway, %", "events/s", "KB/s of a viewer")
    for connect in (False, True):
        for number in numbers:
            orchestrator, gateway, events, read = await measure(mesh, number, rate, seconds, connect=connect)
            over = "Connect" if connect else "server-sent events"
            cells = (f"{value:.1f}" for value in (orchestrator, gateway, events, read / 1024))
            table.add_row(str(number), over, *cells)
    Console().print(table)


def main() -> None:
    """Measures on a mesh of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", default="0,1,100", help="numbers of viewers, separated by commas")
    parser.add_argument("--rate", type=float, default=50.0, help="events a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    given = parser.parse_args()
    streams = {"gateway": {"ARCHON_STREAMS": "2000", "ARCHON_REQUESTS_PER_SECOND": "2000"}}
    services = ("registry", "memory", "orchestrator", "gateway")
    with LocalMesh(only=services, environment=streams) as mesh:
        os.environ["ARCHON_TOKEN"] = mesh.token("writer")
        numbers = [int(number) for number in given.viewers.split(",")]
        asyncio.run(report(mesh, numbers, given.rate, given.seconds))


if __name__ == "__main__":
    main()
