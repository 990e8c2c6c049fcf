"""The pipeline on Temporal, as its documentation advises: a workflow of three activities, with the worker in one process and
the client in another. Runs in an environment with temporalio and without Archon; `python -m tests.bench.peers_temporal
KIND SERVER` serves until SIGTERM and writes its address to the file BENCH_READY.

    worker SERVER  executes workflows and activities
    load SERVER    starts workflows and awaits their results, on request
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import PollerBehaviorAutoscaling, Worker

with workflow.unsafe.imports_passed_through():  # else the sandbox imports it again for each run
    from tests.bench.drive import ANSWER, GOAL, ROLES, announce, answered, serve_load, until_terminated

QUEUE = "bench"
ACTIVITY_TIMEOUT = timedelta(seconds=10)


@activity.defn  # type: ignore[untyped-decorator,unused-ignore]
async def answer(role: str, content: str) -> str:
    """Answers 1 KB."""
    return await answered(role)


@workflow.defn  # type: ignore[untyped-decorator,unused-ignore]
class Pipeline:
    """The roles in a row; each is handed what came before."""

    @workflow.run  # type: ignore[untyped-decorator,unused-ignore]
    async def run(self, goal: str) -> str:
        """Executes one activity for each role."""
        content = goal
        for role in ROLES:
            answer_of_role: str = await workflow.execute_activity(
                answer, args=[role, content], start_to_close_timeout=ACTIVITY_TIMEOUT
            )
            content = goal + answer_of_role
        return content


async def serve_worker(server: str) -> None:
    """Serves the worker: pollers scale with the load, which the documentation prefers to a fixed number, and activities
    are executed eagerly, which is the default of the SDK. The cache of workflows and the 100 slots of each kind, the
    defaults, are enough for 64 runs at a time."""
    worker = Worker(
        await Client.connect(server),
        task_queue=QUEUE,
        workflows=[Pipeline],
        activities=[answer],
        workflow_task_poller_behavior=PollerBehaviorAutoscaling(),
        activity_task_poller_behavior=PollerBehaviorAutoscaling(),
    )
    async with worker:
        announce(f"worker of {server}")
        await until_terminated()


async def load(server: str) -> None:
    """Makes runs on request, each a workflow with an id of its own."""
    client = await Client.connect(server)

    async def run() -> None:
        content = await client.execute_workflow(Pipeline.run, GOAL, id=uuid.uuid4().hex, task_queue=QUEUE)
        assert content == GOAL + ANSWER

    await run()
    await serve_load(run)


def main() -> None:
    """Serves what the arguments name."""
    kind, server = sys.argv[1:]
    match kind:
        case "worker":
            asyncio.run(serve_worker(server))
        case "load":
            asyncio.run(load(server))
        case _:
            sys.exit(f"unknown kind of process {kind!r}")


if __name__ == "__main__":
    main()
