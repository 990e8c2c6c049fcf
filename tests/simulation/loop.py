"""An event loop in virtual time: nothing waits, time jumps to the next thing that is due. One seed, one course."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Jump(selectors.SelectSelector):
    """Instead of waiting for the network, moves the clock."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen: every task waits for something that nobody will do")
        if timeout > 0:
            self.loop.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`now` in seconds, from 0."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Jump()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        """Virtual."""
        return self.now


def run_virtual(main: Coroutine[Any, Any, Any]) -> Any:
    """Runs to the end; returns what `main` returns."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        loop.close()
