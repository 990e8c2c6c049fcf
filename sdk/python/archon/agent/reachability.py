"""Notices that no orchestrator can dial an agent: it is behind NAT, or in another cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from archon.channel import attach_options, connect

UNREACHED_AFTER: Final = 10.0
"""Seconds that an orchestrator has to dial an agent that has registered; it does so at once if it can."""

PROBE_TIMEOUT: Final = 2.0
"""Seconds that a connection to an orchestrator may take."""


async def unreached(
    orchestrator: str, reached: Callable[[], bool], sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> bool:
    """Waits until it is known whether an agent that is registered can be dialled. Returns True if the orchestrator at
    `orchestrator` (host:port) has been answering for UNREACHED_AFTER seconds, and none has reached the agent; False as
    soon as one has. While no orchestrator answers, nothing is known."""
    answered = False
    while True:
        await sleep(UNREACHED_AFTER)
        if reached():
            return False
        answers = await _answers(orchestrator)
        if answered and answers:
            return not reached()
        answered = answers


async def _answers(orchestrator: str) -> bool:
    """Whether a connection to the orchestrator can be opened."""
    channel = connect(orchestrator, attach_options())
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            await channel.channel_ready()
    except TimeoutError:
        return False
    finally:
        await channel.close()
    return True
