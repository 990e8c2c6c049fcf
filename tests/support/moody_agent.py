"""The echo agent, with moods: SIGUSR1 blocks its event loop for MOODY_STUCK seconds, SIGUSR2 makes it slow for good, and
a goal of MOODY_BIG gives an answer of so many bytes."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from archon import TaskContext
from tests.support import echo_agent


def _stuck(*_: Any) -> None:
    time.sleep(float(os.environ.get("MOODY_STUCK", "6")))


def _slow(*_: Any) -> None:
    os.environ["ECHO_DELAY"] = "4"


@echo_agent.agent.task
async def work(task: TaskContext) -> str:
    """As the echo agent, but for a goal that asks for much."""
    if task.text.startswith("big "):
        return "x" * int(task.text.split()[1])
    return await echo_agent.echo(task)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _stuck)
    signal.signal(signal.SIGUSR2, _slow)
    sys.exit(echo_agent.agent.run())
