"""The processes of the benchmark. `python -m tests.bench.peers KIND ...` serves until SIGTERM and writes its address to
the file BENCH_READY.

    agent ROLE DEPENDS_ON...      one of Archon's, with a handler that answers 1 KB at once
    floor-agent                   a unary gRPC method that answers 1 KB at once
    floor-orchestrator A B C      a unary gRPC method that calls three of those in a row
"""

from __future__ import annotations

import os
import sys
from typing import Any

import grpc.aio
import uvloop

from archon import AgentServer
from archon.agent import AgentSettings
from archon.channel import server_options
from archon.server import signalled
from archon.telemetry import export
from tests.bench.drive import ANSWER, announce

METHOD = "/bench.Floor/Call"


async def serve_floor(call: Any) -> None:
    """What a good engineer would write by hand: bytes in, bytes out, one method."""
    server = grpc.aio.server(options=server_options())
    handler: Any = grpc.unary_unary_rpc_method_handler(call)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Floor", {"Call": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    announce(f"127.0.0.1:{port}")
    await signalled().wait()
    await server.stop(0)


async def floor_agent() -> None:
    """Answers 1 KB."""
    answer = ANSWER.encode()

    async def call(request: bytes, context: Any) -> bytes:
        return answer

    await serve_floor(call)


async def floor_orchestrator(targets: list[str]) -> None:
    """Three sequential calls on channels that are kept; each is handed what came before."""
    methods: list[Any] = [grpc.aio.insecure_channel(target).unary_unary(METHOD) for target in targets]

    async def call(request: bytes, context: Any) -> bytes:
        content = request
        for method in methods:
            content = request + await method(content)
        return content

    await serve_floor(call)


async def agent(role: str, depends_on: list[str]) -> None:
    """One of Archon's."""
    export.start(role)
    settings = AgentSettings(registry=os.environ["ARCHON_REGISTRY"])
    server = AgentServer(role, depends_on=depends_on, max_tasks=256, handler=_answer, settings=settings)
    address = await server.start()
    announce(address)
    await signalled().wait()
    await server.stop(0.0)


async def _answer(task: object) -> str:
    return ANSWER


def main() -> None:
    """Runs the process that the arguments name."""
    kind, *rest = sys.argv[1:]
    match kind:
        case "agent":
            uvloop.run(agent(rest[0], rest[1:]))
        case "floor-agent":
            uvloop.run(floor_agent())
        case "floor-orchestrator":
            uvloop.run(floor_orchestrator(rest))
        case _:
            sys.exit(f"no peer is called {kind}")


if __name__ == "__main__":
    main()
