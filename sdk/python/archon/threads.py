"""Runs plain functions beside an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

Outcome = tuple[object, BaseException | None]


def on_thread(function: Callable[[], object], name: str) -> asyncio.Future[Outcome]:
    """Runs a function with the caller's context variables; the future's result is its return value and its error.

    Each call has a daemon thread of its own, not one of a pool: a function that never ends must delay neither other
    functions nor the end of the process. Cancelling the future does not stop the function."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()
    variables = contextvars.copy_context()

    def run() -> None:
        outcome: Outcome
        try:
            outcome = variables.run(function), None
        except BaseException as error:  # noqa: BLE001 - raised again in the loop
            outcome = None, error
        if not loop.is_closed():
            loop.call_soon_threadsafe(complete, outcome)

    def complete(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
