"""An agent as a process that has others do its work: ECHO_ROLE delegates to each of DELEGATES, one by one, or all at
once where DELEGATE_AT_ONCE is set; then it works for ECHO_DELAY seconds. Every execution is a line in ECHO_LEDGER."""

from __future__ import annotations

import asyncio
import os
import sys

from archon import AgentServer, TaskContext

role = os.environ["ECHO_ROLE"]
others = [name for name in os.environ.get("DELEGATES", "").split(",") if name]
agent = AgentServer(role, coordinator=True, description=f"leads as {role}")


def note(line: str, task: TaskContext) -> None:
    with open(os.environ["ECHO_LEDGER"], "a") as ledger:
        ledger.write(f"{line} {role} {task.task_id} {task.attempt} {os.getpid()}\n")


@agent.task
async def lead(task: TaskContext) -> str:
    """Says what the others said, and which of it an earlier attempt had paid for."""
    note("begin", task)
    if os.environ.get("DELEGATE_AT_ONCE"):
        said = await asyncio.gather(*(task.delegate(task.text, role=other) for other in others))
    else:
        said = [await task.delegate(task.text, role=other, checkpoint=f"at {other}".encode()) for other in others]
    note("asked", task)
    await asyncio.sleep(float(os.environ.get("ECHO_DELAY", "0")))
    note("end", task)
    remembered = [other for other, answer in zip(others, said, strict=True) if answer.memoized]
    return (
        f"{role}[{', '.join(answer.text for answer in said)}] {','.join(remembered)} {task.checkpoint.decode()}".strip()
    )


if __name__ == "__main__":
    sys.exit(agent.run())
