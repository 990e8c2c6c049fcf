"""Waits at the start of a process for a dependency that is not there yet."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from archon.errors import Unavailable

_log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_BACKOFF: Final = 0.2
MAX_BACKOFF: Final = 5.0
LOG_INTERVAL: Final = 30.0


async def when_available(attempt: Callable[[], Awaitable[T]], what: str) -> T:
    """Calls `attempt` until it no longer raises Unavailable, and returns its value. `what` names the dependency in the
    log. Other errors are raised."""
    loop = asyncio.get_running_loop()
    backoff, logged = MIN_BACKOFF, -LOG_INTERVAL
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if loop.time() - logged >= LOG_INTERVAL:
                _log.warning("waiting for %s: %s", what, error)
                logged = loop.time()
        await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
        backoff = min(MAX_BACKOFF, backoff * 2)
