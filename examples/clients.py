"""The example of docs/clients.md: a run is followed as its view tells it."""

from __future__ import annotations

from archon import Client
from archon.run_view import WaitKind


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
