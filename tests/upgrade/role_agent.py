"""An agent process of any release: replies its role and what it was given, after UPGRADE_DELAY seconds. If the goal begins
with `ask` it asks a person first, and replies the answer as well; if it begins with `cancel` it waits to be cancelled."""

from __future__ import annotations

import asyncio
import os
import sys

from archon import AgentServer, Question, TaskContext

role = os.environ["UPGRADE_ROLE"]
agent = AgentServer(role, capabilities=[], description=f"replies as {role}")


@agent.task
async def reply(task: TaskContext) -> str | Question:
    """Replies `role(context)`, or `role(goal)` and the answer of a person if it depends on no role."""
    if not task.context and task.text.startswith("ask") and not task.inputs:
        return Question("which one?")
    task.write(f"{role} is thinking")
    if task.text.startswith("cancel"):
        await asyncio.Event().wait()
    await asyncio.sleep(float(os.environ["UPGRADE_DELAY"]))
    return f"{role}({', '.join(item.text for item in task.context) or task.text + task.input_text})"


if __name__ == "__main__":
    sys.exit(agent.run())
