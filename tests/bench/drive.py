"""One measurement: runs at a concurrency, their latency and rate. Imports the standard library only, because the
processes of other frameworks use it too, in environments that hold nothing of Archon."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

GOAL = "g" * 200
ANSWER = "x" * 1024
ROLES = ("first", "second", "third")

STEPS = os.environ.get("BENCH_STEPS")
"""A file for tests of durability, None in a measurement. Each role that begins to answer appends its name as a line."""

HELD = Path(f"{STEPS}.held")
"""A file with the name of a role that does not answer as long as the file is there."""

Run = Callable[[], Awaitable[None]]
"""Makes one run and returns when it has ended; raises if it failed."""


@dataclass
class Measured:
    """`p50`, `p95` and `p99` in seconds, `rate` in runs per second."""

    p50: float
    rate: float
    p95: float = 0.0
    p99: float = 0.0


Driver = Callable[[Run, int, int], Awaitable[Measured]]
"""Measures so many runs, at a concurrency or at a rate."""


async def answered(role: str) -> str:
    """Answers 1 KB. Waits first if a test of durability holds this role."""
    if STEPS is not None:
        _append(STEPS, role)
        while _is_held(role):  # noqa: ASYNC110 - another process removes the file
            await asyncio.sleep(0.02)
    return ANSWER


def _append(path: str, role: str) -> None:
    with open(path, "a") as file:
        file.write(f"{role}\n")


def _is_held(role: str) -> bool:
    try:
        return HELD.read_text() == role
    except FileNotFoundError:
        return False


async def drive(run: Run, runs: int, concurrency: int) -> Measured:
    """Measures `runs` runs by `concurrency` workers, each with one run at a time."""
    latencies: list[float] = []
    left = runs

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = time.perf_counter()
            await run()
            latencies.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    return _measured(latencies, time.perf_counter() - began)


async def trickle(run: Run, runs: int, rate: int) -> Measured:
    """Measures `runs` runs that begin at random times, `rate` a second on average, whether or not others have ended: what
    a service sees. The times are the same in each measurement. A run that begins late has waited since its time."""
    intervals = random.Random(rate)
    latencies: list[float] = []

    async def one(due: float) -> None:
        await run()
        latencies.append(time.perf_counter() - due)

    began = due = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(runs):
            due += intervals.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(due))
    return _measured(latencies, time.perf_counter() - began)


def _measured(latencies: list[float], elapsed: float) -> Measured:
    latencies.sort()
    p50, p95, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.95, 0.99))
    return Measured(p50, len(latencies) / elapsed, p95, p99)


def free_address() -> str:
    """Returns an address of this machine on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def until_reachable(address: str) -> None:
    """Returns when something listens at an address."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            await asyncio.sleep(0.02)
            continue
        writer.close()
        return


def announce(address: str) -> None:
    """Writes the address that this process serves on to the file BENCH_READY."""
    Path(os.environ["BENCH_READY"]).write_text(address)


async def until_terminated() -> None:
    """Returns when the process gets SIGTERM."""
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    await terminated.wait()


async def serve_load(run: Run) -> None:
    """Measures on request until SIGTERM. A request is one connection to the announced address: a line of JSON with
    `runs` and `concurrency`, answered by one with the fields of Measured, or with `error`."""

    async def measure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = json.loads(await reader.readline())
        try:
            reply = asdict(await drive(run, request["runs"], request["concurrency"]))
        except Exception as error:  # noqa: BLE001 - the error is the reply
            reply = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(reply).encode() + b"\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(measure, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    announce(f"{host}:{port}")
    await until_terminated()
    server.close()


async def request_load(target: str, runs: int, concurrency: int) -> Measured:
    """Asks the process at `target`, which runs `serve_load`, for a measurement. Raises RuntimeError if a run fails."""
    host, _, port = target.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(json.dumps({"runs": runs, "concurrency": concurrency}).encode() + b"\n")
        reply = json.loads(await reader.readline() or '{"error": "the process ended"}')
    finally:
        writer.close()
    if "error" in reply:
        raise RuntimeError(reply["error"])
    return Measured(**reply)
