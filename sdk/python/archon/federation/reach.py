"""Calls to another mesh, which may be unreachable for a while."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from archon.client import Client
from archon.errors import Aborted, ArchonError, DeadlineExceeded, OperationCancelled, Unavailable
from archon.failure_kinds import RetryAdvice
from archon.federation.other_mesh import OtherMesh
from archon.types.child_run import CHILD_MESH_KEY

T = TypeVar("T")

PASSING = (Unavailable, DeadlineExceeded, Aborted, OperationCancelled)
"""Errors of calls to an orchestrator that stops, restarts or is taken over."""


async def reach(mesh: OtherMesh, call: Callable[[Client], Awaitable[T]], patience: float) -> T:
    """Makes an idempotent call until the other mesh answers it. Raises Unavailable if it has not for `patience`
    seconds, and the errors with which it answers."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while True:
        try:
            return await call(mesh.client())
        except PASSING as error:
            if loop.time() >= end:
                raise unreachable(mesh, error) from error
        await pause()


async def pause() -> None:
    """Waits before the next try."""
    await asyncio.sleep(random.uniform(0.1, 0.4))


def unreachable(mesh: OtherMesh, error: ArchonError) -> Unavailable:
    """Returns the error of an attempt whose other mesh does not answer: another instance may reach it."""
    return Unavailable(
        f"the mesh {mesh.name} cannot be reached: {error}",
        metadata={CHILD_MESH_KEY: mesh.name},
        retry=RetryAdvice.ELSEWHERE,
        causes=[error],
    )
