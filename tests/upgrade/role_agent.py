"""An agent process of any release: replies its role and what it was given, after UPGRADE_DELAY seconds."""

from __future__ import annotations

import asyncio
import os
import sys

from archon import AgentServer, TaskContext

role = os.environ["UPGRADE_ROLE"]
agent = AgentServer(role, capabilities=[], description=f"replies as {role}")


@agent.task
async def reply(task: TaskContext) -> str:
    """Replies `role(context)`, or `role(goal)` if it depends on no role."""
    task.write(f"{role} is thinking")
    await asyncio.sleep(float(os.environ["UPGRADE_DELAY"]))
    return f"{role}({', '.join(item.text for item in task.context) or task.text})"


if __name__ == "__main__":
    sys.exit(agent.run())
