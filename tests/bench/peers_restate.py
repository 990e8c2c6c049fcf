"""The pipeline on Restate, as its documentation advises: a service whose handler makes three durable steps, under
hypercorn, called through the ingress of Restate's server. Runs in an environment with restate-sdk[client] and hypercorn
and without Archon; `python -m tests.bench.peers_restate KIND ...` serves until SIGTERM and writes its address to the file
BENCH_READY.

    service ADDRESS             the service, at this address
    load INGRESS ADMIN SERVICE  registers the service, then makes runs on request
"""

from __future__ import annotations

import asyncio
import logging
import sys

import httpx
import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config
from restate.client import Client

from tests.bench.drive import ANSWER, GOAL, ROLES, announce, answered, serve_load, until_reachable, until_terminated

bench = restate.Service("bench")

UNLIMITED = 2**31 - 1
RUN_TIMEOUT = 60.0


async def answer(role: str, content: str) -> str:
    """Answers 1 KB."""
    return await answered(role)


@bench.handler()  # type: ignore[untyped-decorator,unused-ignore]
async def pipeline(context: restate.Context, goal: str) -> str:
    """The roles in a row; each is handed what came before."""
    content = goal
    for role in ROLES:
        content = goal + await context.run_typed(role, answer, restate.RunOptions(), role, content)
    return content


async def serve_service(address: str) -> None:
    """Serves the service. Restate keeps one HTTP/2 connection to it and has 128 streams on that: hypercorn would allow 100
    and close the connection after 1,000 requests, and so the SDK's own harness lifts these limits."""
    config = Config()
    config.bind = [address]
    config.loglevel = "WARNING"
    config.h2_max_concurrent_streams = UNLIMITED
    config.keep_alive_max_requests = UNLIMITED
    config.keep_alive_timeout = UNLIMITED
    serving = asyncio.create_task(serve(restate.app(services=[bench]), config, shutdown_trigger=until_terminated))
    await until_reachable(address)
    announce(address)
    await serving


async def load(ingress: str, admin: str, service: str) -> None:
    """Makes runs on request. The client is the SDK's, with a longer timeout than its 5 s."""
    await until_reachable(admin)
    async with httpx.AsyncClient(timeout=RUN_TIMEOUT) as registering:
        registered = await registering.post(f"http://{admin}/deployments", json={"uri": f"http://{service}"})
        registered.raise_for_status()
    async with httpx.AsyncClient(base_url=f"http://{ingress}", http2=True, timeout=RUN_TIMEOUT) as connection:
        client = Client(connection)

        async def run() -> None:
            content = await client.service_call(pipeline, GOAL)
            assert content == GOAL + ANSWER

        await run()
        await serve_load(run)


def main() -> None:
    """Serves what the arguments name."""
    logging.disable(logging.INFO)
    kind, *rest = sys.argv[1:]
    match kind:
        case "service":
            asyncio.run(serve_service(*rest))
        case "load":
            asyncio.run(load(*rest))
        case _:
            sys.exit(f"unknown kind of process {kind!r}")


if __name__ == "__main__":
    main()
