"""The examples of docs/clients.md: a run is followed by its events, and as its view tells it."""

from __future__ import annotations

from archon import Client
from archon.run_view import WaitKind
from archon.types import Budget, Part


async def narrate(client: Client, goal: str) -> list[str]:
    """Returns a line for each answer of a task, and one for the end of the run."""
    handle = await client.submit([Part(text=goal)], budget=Budget(max_tokens=50_000))
    lines = []
    async for event in handle.events():
        if event.type == "result":
            lines.append(f"{event.time - handle.run.create_time:.1f} s: {event.data['role']} {event.data['state']}")
    run = await client.get(handle.run_id)
    if run.failure is not None:
        return [*lines, f"{run.failure.reason}: {run.failure.message}"]
    return [*lines, *(f"{answer.role}: {answer.text}" for answer in run.answers)]


async def follow(client: Client, goal: str) -> list[str]:
    """Returns a line for each change of a task."""
    handle, lines, shown = await client.submit(goal), list[str](), dict[str, str]()
    async for view in handle.views():
        for task in view.tasks.values():
            line = f"{task.label}: {task.state}"
            wait = view.waiting_for(task)
            if wait is not None and wait.kind is WaitKind.TASKS:
                line += f", waits for {' and '.join(wait.names)}"
            if shown.get(task.task_id) != line:
                shown[task.task_id] = line
                lines.append(line)
    return lines
