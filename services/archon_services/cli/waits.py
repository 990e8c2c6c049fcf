"""Says why a followed run does not go on, if a task waits for an instance."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from archon.background import BackgroundLoop
from archon.client import Client
from archon.errors import ArchonError
from archon_services.cli.render.run_screen import Screen
from archon_services.reports.texts import strip_controls

PATIENCE: Final = 5.0
"""Seconds that a task may wait for an instance without a note."""

_AN_INSTANCE: Final = "an instance of "


@asynccontextmanager
async def explained(client: Client, run_id: str, screen: Screen) -> AsyncIterator[None]:
    """Within the block, `screen` gets a note about each task that has waited for an instance for PATIENCE seconds, and
    another one if the reason changes."""
    explaining = BackgroundLoop("explain waits", lambda: _explain(client, run_id, screen))
    explaining.start()
    try:
        yield
    finally:
        await explaining.close()


async def _explain(client: Client, run_id: str, screen: Screen) -> None:
    before: dict[str, str] = {}
    noted: set[tuple[str, str]] = set()
    while True:
        await asyncio.sleep(PATIENCE / 2)
        try:
            run = await client.get(run_id)
        except ArchonError:
            continue  # who follows the run reports it
        waiting = {task.task_id: task.waiting_for for task in run.tasks if task.waiting_for.startswith(_AN_INSTANCE)}
        for task_id, reason in waiting.items():
            if before.get(task_id) == reason and (task_id, reason) not in noted:
                noted.add((task_id, reason))
                screen.note(f"Waiting for {strip_controls(reason)}. `archon agents` lists the instances.")
        before = waiting
