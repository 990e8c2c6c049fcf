"""The remote calls of one run: its leases, which end with it, and the keys by which a retried attempt acts once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from archon import context
from archon_mesh.tools.call_position import current_position

if TYPE_CHECKING:
    from archon.tools import LeasedTool

MAX_LEASES: Final = 100
"""Tools that a run holds leases of at a time; of a further one a call is leased for itself."""


class RemoteCalls:
    """The leases of a run, and the number of its equal calls."""

    def __init__(self) -> None:
        self._leased: dict[object, LeasedTool] = {}
        self._made: Counter[str] = Counter()

    def leased(self, tool: object, make: Callable[[], LeasedTool]) -> LeasedTool | None:
        """Returns the lease of a tool for this run, or None if it holds too many."""
        known = self._leased.get(tool)
        if known is None and len(self._leased) < MAX_LEASES:
            known = self._leased[tool] = make()
        return known

    def number(self, call: str) -> int:
        """Returns how many equal calls were made before this one."""
        self._made[call] += 1
        return self._made[call] - 1

    async def release(self) -> None:
        """Releases the leases of this run at their owners, all at once; the next call of a tool makes another lease."""
        leased, self._leased = list(self._leased.values()), {}
        await asyncio.gather(*(each.release() for each in leased))


_calls: ContextVar[RemoteCalls | None] = ContextVar("archon_remote_calls", default=None)


def current_calls() -> RemoteCalls | None:
    """Returns the remote calls of the current run, or None outside a run."""
    return _calls.get()


@asynccontextmanager
async def remote_calls() -> AsyncIterator[None]:
    """Holds the leases that are taken within the block until its end; within another such block, until the end of
    that."""
    if _calls.get() is not None:
        yield
        return
    calls = RemoteCalls()
    token = _calls.set(calls)
    try:
        yield
    finally:
        _calls.reset(token)
        await calls.release()


def call_key(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """Returns the idempotency key of a call that is made now. Within a task of the mesh it is the same in each attempt
    that takes the same course: it follows from the position of the call, its tool and its arguments, and from the
    number of equal calls before it. Elsewhere no two keys are equal."""
    calls, position = current_calls(), current_position()
    if calls is None or not context.current().task_id:
        return uuid.uuid4().hex
    text = json.dumps(dict(arguments), sort_keys=True, default=str)
    path = position.path if position is not None else ""
    call = hashlib.sha256(f"{path}\0{tool_name}\0{text}".encode("utf-8", "replace")).hexdigest()[:32]
    return f"{call}.{calls.number(call)}"
