"""Limits of concurrent calls, which recognise calls that would wait for each other for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from archon.errors import FailedPrecondition


class _Hold:
    """A slot in use by a call. `waits` are the waits of that call, and of the calls that it makes."""

    def __init__(self) -> None:
        self.waits: set[_Wait] = set()


class _LoopSlots:
    """The slots in one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.free = asyncio.Semaphore(limit)
        self.holds: set[_Hold] = set()


class _Wait:
    """A call that waits for a slot."""

    def __init__(self, slots: _LoopSlots) -> None:
        self.slots = slots

    def can_end(self, ending: set[_Wait]) -> bool:
        """Tells whether a slot becomes free once the waits `ending` have ended."""
        holds = tuple(self.slots.holds)
        # A slot without a hold has just become free, and a call is about to take it.
        return len(holds) < self.slots.limit or any(ending.issuperset(hold.waits) for hold in holds)


_chain: ContextVar[tuple[_Hold, ...]] = ContextVar("archon_held_slots", default=())


class CallSlots:
    """At most `limit` calls at a time in each event loop; others wait in the order of their arrival.

    A call holds its slot while it makes further calls. A wait that only calls could end that wait for it themselves is
    refused, whatever chain of agents leads there. `name` names the resource in the error.
    """

    def __init__(self, name: str, limit: int = 1) -> None:
        self.name = name
        self._limit = limit
        self._guard = threading.Lock()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopSlots] = WeakKeyDictionary()

    def locked(self) -> bool:
        """Whether a call would wait now."""
        slots = self._of_loop.get(asyncio.get_running_loop())
        return slots is not None and slots.free.locked()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Holds a slot within the block. Raises FailedPrecondition if the call would wait for ever."""
        with self._guard:
            slots = self._of_loop.setdefault(asyncio.get_running_loop(), _LoopSlots(self._limit))
        held = _chain.get()
        if slots.free.locked():
            await self._wait(slots, held)
        else:
            await slots.free.acquire()
        hold = _Hold()
        slots.holds.add(hold)
        token = _chain.set((*held, hold))
        try:
            yield
        finally:
            _chain.reset(token)
            slots.holds.discard(hold)
            slots.free.release()

    async def _wait(self, slots: _LoopSlots, held: tuple[_Hold, ...]) -> None:
        wait = _Wait(slots)
        for hold in held:
            hold.waits.add(wait)
        try:
            if not _can_end(wait):
                raise FailedPrecondition(
                    f"delegation loop: {self.name} is in use by a call that waits for this one",
                    reason="DELEGATION_LOOP",
                )
            await slots.free.acquire()
        finally:
            for hold in held:
                hold.waits.discard(wait)


def _can_end(wait: _Wait) -> bool:
    """Tells whether a call that holds one of the slots goes on, or can go on once its own waits have ended."""
    reachable, to_visit = {wait}, [wait]
    while to_visit:
        for hold in tuple(to_visit.pop().slots.holds):
            new = set(hold.waits) - reachable
            reachable |= new
            to_visit += new
    ending: set[_Wait] = set()
    while more := {each for each in reachable - ending if each.can_end(ending)}:
        ending |= more
    return wait in ending
