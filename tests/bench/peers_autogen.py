"""The pipeline on AutoGen's gRPC runtime, as a user would write it. Runs in an environment with autogen-core and
autogen-ext[grpc] and without Archon; `python -m tests.bench.peers_autogen KIND ...` serves until SIGTERM and writes
its address to the file BENCH_READY.

    host            the runtime's host, through which all messages go
    agent HOST ROLE a worker with one agent, which answers 1 KB at once
    load HOST       a worker without agents: sends to the three roles in a row, each is handed what came before
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass

from autogen_core import AgentId, MessageContext, RoutedAgent, message_handler, try_get_known_serializers_for_type
from autogen_ext.runtimes.grpc import GrpcWorkerAgentRuntime, GrpcWorkerAgentRuntimeHost

from tests.bench.drive import (
    ANSWER,
    GOAL,
    ROLES,
    announce,
    free_address,
    serve_load,
    until_reachable,
    until_terminated,
)


@dataclass
class Content:
    """What a role is handed, and what it answers."""

    text: str


class PipelineAgent(RoutedAgent):  # type: ignore[misc]  # the base class is not installed where mypy runs
    """Answers 1 KB."""

    @message_handler  # type: ignore[untyped-decorator]
    async def answer(self, message: Content, ctx: MessageContext) -> Content:
        """Answers a message."""
        return Content(ANSWER)


async def serve_host() -> None:
    """Serves the runtime's host on a free port."""
    address = free_address()
    host = GrpcWorkerAgentRuntimeHost(address)
    host.start()
    await until_reachable(address)
    announce(address)
    await until_terminated()
    await host.stop(grace=0)


async def serve_agent(host: str, role: str) -> None:
    """Serves one role."""
    runtime = GrpcWorkerAgentRuntime(host_address=host)
    await runtime.start()
    await PipelineAgent.register(runtime, role, lambda: PipelineAgent(role))
    announce(role)
    await until_terminated()
    await runtime.stop()


async def load(host: str) -> None:
    """Makes runs on request: three messages in a row, each awaited."""
    runtime = GrpcWorkerAgentRuntime(host_address=host)
    runtime.add_message_serializer(try_get_known_serializers_for_type(Content))
    await runtime.start()

    async def run() -> None:
        text = GOAL
        for role in ROLES:
            answer = await runtime.send_message(Content(text), AgentId(role, "default"))
            text = GOAL + answer.text

    await run()
    await serve_load(run)
    await runtime.stop()


def main() -> None:
    """Serves what the arguments name."""
    logging.disable(logging.INFO)
    kind, *rest = sys.argv[1:]
    match kind:
        case "host":
            asyncio.run(serve_host())
        case "agent":
            asyncio.run(serve_agent(rest[0], rest[1]))
        case "load":
            asyncio.run(load(rest[0]))
        case _:
            sys.exit(f"unknown kind of process {kind!r}")


if __name__ == "__main__":
    main()
