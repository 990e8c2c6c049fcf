"""Plain functions beside an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

Outcome = tuple[object, BaseException | None]


def on_thread(function: Callable[[], object], name: str) -> asyncio.Future[Outcome]:
    """What a function returned or raised; the context variables are the caller's. A thread of its own and none of a
    pool: one that never ends must hold up neither others nor the end of the process. Whoever waits may be cancelled."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()
    carried = contextvars.copy_context()

    def run() -> None:
        outcome: Outcome
        try:
            outcome = carried.run(function), None
        except BaseException as error:  # noqa: BLE001 - raised again in the loop
            outcome = None, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, outcome)

    def tell(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
