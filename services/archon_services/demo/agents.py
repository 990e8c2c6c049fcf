"""The agents of `archon demo`: a reader, an analyst that is killed in the middle of its work, and a reporter.

`python -m archon_services.demo.agents ROLE ...` serves roles in one process until a signal.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from archon.agent import AgentServer, TaskContext
from archon.server import signalled
from archon_services.demo.incident import CANDIDATES, examine, overview, read_log, report

THINKING: Final = 0.2
"""Seconds that the analyst takes for each step, as an agent does that waits for a model: counting takes none."""


async def read(task: TaskContext) -> str:
    """Answers with an overview of the log."""
    return json.dumps(overview(read_log(task.text)))


async def analyse(task: TaskContext) -> str:
    """Examines one candidate after the other. A later attempt goes on with the next one after those that were saved."""
    lines = read_log(task.text)
    examined: list[dict[str, Any]] = json.loads(task.checkpoint or b"[]")
    for fields in CANDIDATES[len(examined) :]:
        await asyncio.sleep(THINKING)
        examined.append(examine(lines, fields))
        task.save(json.dumps(examined).encode())
    return json.dumps(examined)


async def write(task: TaskContext) -> str:
    """Writes the report from the answers of the two others."""
    answers = {item.role: json.loads(item.text) for item in task.context}
    return report(read_log(task.text), answers["reader"], answers["analyst"])


HANDLERS: Final = {"reader": read, "analyst": analyse, "reporter": write}
DEPENDS_ON: Final = {"reader": (), "analyst": ("reader",), "reporter": ("reader", "analyst")}


async def serve(roles: Sequence[str]) -> None:
    """Serves until a signal."""
    stop = signalled()
    async with AsyncExitStack() as stack:
        for role in roles:
            agent = AgentServer(role, depends_on=DEPENDS_ON[role], handler=HANDLERS[role])
            await stack.enter_async_context(agent)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1:]))
