"""The Python cost of one append, by part: a driver over a journal in memory and a transport that answers at once."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rich.console import Console

from archon.api.agent.v1 import agent_pb2, session_pb2
from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon_mesh.core.run import inputs as inp
from archon_mesh.core.run.types import Edge, Requirement, Submission, TaskState
from archon_services.orchestrator.journal import MemoryJournal
from archon_services.orchestrator.ports import AttemptStatus, Delivery, SystemClock
from archon_services.orchestrator.runs import driver
from archon_services.orchestrator.runs import effects as carrying_out
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.watch.hub import WatchHub

RUNS = 2_000
ROLES = ("first", "second", "third")
EDGES = (Edge("first", "second"), Edge("first", "third"), Edge("second", "third"))
RESULT = agent_pb2.TaskResult(state=common_pb2.TASK_STATE_COMPLETED, output=[common_pb2.Part(text="x" * 1024)])


class Instant:
    """A transport whose agents answer at once."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def stateful(self, role: str) -> bool:
        return False

    def reserve(self, want: Requirement) -> str | None:
        return "instance"

    def release(self, instance_id: str) -> None:
        pass

    def when_free(self, want: Requirement, wake: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def assign(self, instance_id: str, ref: common_pb2.TaskRef, role: str, task: agent_pb2.AssignTask) -> None:
        result = inp.ResultIn(ref.task_id, ref.attempt, TaskState.COMPLETED, RESULT)
        asyncio.get_running_loop().call_soon(self._runs.deliver, ref.run_id, Delivery(result))

    def adopt(self, instance_id: str, ref: common_pb2.TaskRef, role: str, standing: AttemptStatus) -> None:
        pass

    def tell(self, instance_id: str, ref: common_pb2.TaskRef, frame: session_pb2.OrchestratorFrame) -> None:
        pass

    def cancel(self, instance_id: str, ref: common_pb2.TaskRef, reason: str) -> None:
        pass

    def release_run(self, run_id: str, *, over: bool = False) -> None:
        pass


def timed(spent: dict[str, float], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds up the time of a function that calls no other timed one."""

    def call(*arguments: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            spent[name] += time.perf_counter() - began

    return call


async def print_append_cost() -> None:
    """Prints microseconds an append, of a run of three roles (four appends)."""
    spent: dict[str, float] = defaultdict(float)
    parts: tuple[tuple[Any, str, str], ...] = (
        (driver, "decide", "engine"),
        (driver, "apply", "engine"),
        (driver, "places", "engine"),
        (driver, "open_effects", "engine"),
        (driver, "encode_inputs", "driver: inputs"),
        (driver, "event_to_proto", "driver: events"),
        (carrying_out, "assign_task", "pool: the task"),
        (driver, "publications", "driver: outbox"),
        (driver, "record_rows", "driver: records"),
    )
    for module, name, part in parts:
        setattr(module, name, timed(spent, part, getattr(module, name)))
    WatchHub.publish = timed(spent, "watch", WatchHub.publish)  # type: ignore[method-assign]
    journal, ids = MemoryJournal(), iter(range(1_000_000))
    runs = Runs(owner="bench", clock=SystemClock(), journal=journal, new_id=lambda: f"r{next(ids)}")
    runs.start(Instant(runs))
    began = time.perf_counter()
    for _ in range(RUNS):
        run_id = runs.new_id()
        goal = run_pb2.Submitted(goal=[common_pb2.Part(text="g" * 200)])
        submission = Submission(run_id, "default", "", "", "pipeline", ROLES, EDGES, 3600.0, goal)
        await runs.submit(submission, b"")
        await runs.wait_until_finished(run_id)
    elapsed = time.perf_counter() - began
    await runs.stop()
    appends = RUNS * 4
    spent["driver: the rest, journal in memory, event loop"] = elapsed - sum(spent.values())
    console = Console()
    console.print(f"Python cost of one append: {elapsed / appends * 1e6:.0f} us (aim 50), of that")
    for part, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        console.print(f"  {seconds / appends * 1e6:6.1f} us  {part}")


if __name__ == "__main__":
    asyncio.run(print_append_cost())
