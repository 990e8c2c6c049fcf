"""An agent as a process: ECHO_ROLE answers with its context and its goal, after ECHO_DELAY seconds; every execution is
a line in the file ECHO_LEDGER."""

from __future__ import annotations

import asyncio
import os
import sys

from archon import AgentServer, TaskContext

role = os.environ["ECHO_ROLE"]
agent = AgentServer(role, capabilities=[], description=f"echoes as {role}")


@agent.task
async def echo(task: TaskContext) -> str:
    """Says what it was given."""
    with open(os.environ["ECHO_LEDGER"], "a") as ledger:  # noqa: ASYNC230 - a line
        ledger.write(f"begin {role} {task.task_id} {task.attempt} {os.getpid()}\n")
    task.write(f"{role} is thinking")
    await asyncio.sleep(float(os.environ.get("ECHO_DELAY", "0")))
    with open(os.environ["ECHO_LEDGER"], "a") as ledger:  # noqa: ASYNC230 - a line
        ledger.write(f"end {role} {task.task_id} {task.attempt} {os.getpid()}\n")
    return f"{role}({', '.join(item.text for item in task.context)})"


if __name__ == "__main__":
    sys.exit(agent.run())
