"""The first role, in Python: what a library needs, from the goal of the run."""

from __future__ import annotations

import sys

from archon import AgentServer, TaskContext

agent = AgentServer("requirements", description="Turns a goal into requirements.")


@agent.task
async def write(task: TaskContext) -> str:
    return f"1. {task.text}\n2. It answers within a second.\n3. It keeps what people have entered."


if __name__ == "__main__":
    sys.exit(agent.run())
