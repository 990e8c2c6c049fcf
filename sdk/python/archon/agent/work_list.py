"""A list of work that the tasks of a run share: each item is given to one of them at a time.

The list is stored in the working memory of the run: one value per item, which says who holds it, and one with the ids
of all items, in order. Every change is a write that names the version it replaces, so that one of two members that want
an item gets it. A member that holds items renews its claims. An item is free again if its claim was not renewed for
LEASE_SECONDS, measured by the clock of the member that waits for it, or at once if a later attempt of the same task
asks for it. A member that has lost an item in this way cannot end it any more."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import Any, Final, TypeVar

from archon.agent.local_values import LocalValues
from archon.agent.shared import Values
from archon.agent.work_item import (
    DONE,
    FAILED,
    FREE,
    HELD,
    MAX_ITEMS,
    MAX_RESULT_BYTES,
    MAX_TRIES,
    Claim,
    Entry,
    ListedItems,
    WorkItem,
    WorkResults,
    check_bytes,
    entry_of,
    not_held,
    too_many_items,
)
from archon.background import BackgroundLoop
from archon.clock import monotonic
from archon.errors import Aborted, DeadlineExceeded, FailedPrecondition, InvalidArgument, LeaseExpired, Unavailable
from archon.registry.retry import backoff

LEASE_SECONDS: Final = 30.0
"""Seconds for which an item stays with a member that does not renew its claim."""

RENEWALS: Final = 4
"""Renewals of a claim within LEASE_SECONDS."""

TRIES: Final = 3
"""How often an item is given out before it has failed for good, unless `add` says otherwise."""

WAIT_SECONDS: Final = 3600.0
"""Seconds that `take` waits at most, unless the task ends before, or the caller says otherwise."""

OUTAGE_SECONDS: Final = 60.0
"""Seconds for which calls wait for a memory service that is away."""

SHORTEST_WAIT: Final = 0.001
"""Seconds between two looks at a claim that ends now: a difference of two times is rounded."""

_LIST: Final = "list"
_ITEMS: Final = "item/"
_NAME: Final = re.compile(r"[\w.-]{1,64}")
_AT_ONCE: Final = 16
_WRITES: Final = 100
_OUTAGE: Final = (Unavailable, DeadlineExceeded)
_T = TypeVar("_T")


def work_scope(run_id: str, name: str) -> str:
    """Returns the scope of working memory that a list of a run is stored in. Raises InvalidArgument for a name that is
    not 1 to 64 letters, digits, `_`, `.` and `-`."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(f"invalid name of a work list {name!r}: 1 to 64 letters, digits, '_', '.' and '-'")
    return f"{run_id}/work/{name}"


class WorkList:
    """One member's view of a work list. Close it: that gives back the items that the member holds.

    Calls raise Unavailable and DeadlineExceeded if the memory service is unreachable for a minute."""

    def __init__(
        self,
        values: Values | None = None,
        *,
        task_id: str = "",
        attempt: int = 1,
        lease: float = LEASE_SECONDS,
        clock: Callable[[], float] = monotonic,
        remaining: Callable[[], float | None] = lambda: None,
    ) -> None:
        """`values` are the values of the list alone; without them they are kept in this process, for this object. The
        member is the attempt of a task, or one of its own without a `task_id`. `remaining` returns the seconds that the
        member has left, or None."""
        self._values = LocalValues() if values is None else values
        self._member = uuid.uuid4().hex
        self._task_id = task_id or self._member
        self._attempt = attempt
        self._lease = lease
        self._clock = clock
        self._remaining = remaining
        self._ids: list[str] | None = None
        self._entries: dict[str, tuple[Entry, int, float]] = {}
        """The items by id, each with its version and the time at which this member saw that version first."""
        self._held: dict[str, Claim] = {}
        self._taking = asyncio.Lock()
        self._renewing = BackgroundLoop("claims of a work list", self._renew_all, expected=_OUTAGE, backoff_max=1.0)
        self._is_closed = False

    @property
    def held(self) -> tuple[str, ...]:
        """The ids of the items that this member holds."""
        return tuple(self._held)

    async def add(self, items: Mapping[str, Any] | Iterable[Any], *, tries: int = TRIES) -> int:
        """Adds items to the end of the list, and returns how many it did not have yet. A mapping names their ids; other
        items have ids that follow from their values, so that equal ones are one item. An item with an id that the list
        has is not changed. An item is given out at most `tries` times.

        The items of one call become visible together. Members that wait learn of them at once.

        Raises InvalidArgument for an item that is no JSON value or has no valid id, ResourceExhausted if the list would
        have more than 1,000 items, or an item more than 16 KiB.
        """
        if not 1 <= tries <= MAX_TRIES:
            raise InvalidArgument(f"an item is given out 1 to {MAX_TRIES} times, not {tries}")
        values = ListedItems.of(items).values
        known, _ = await self._read_ids()
        new = {id_: value for id_, value in values.items() if id_ not in set(known or ())}
        if len(known or ()) + len(new) > MAX_ITEMS:
            raise too_many_items()
        limit = asyncio.Semaphore(_AT_ONCE)

        async def store(id_: str, value: Any) -> None:
            async with limit:
                with suppress(Aborted):  # another member adds the same item, or an earlier attempt did
                    await self._patiently(partial(self._values.set, _ITEMS + id_, Entry(value, tries).to_value(), 0))

        await asyncio.gather(*(store(id_, value) for id_, value in new.items()))
        for _ in range(_WRITES):
            known, version = await self._read_ids()
            added = [id_ for id_ in new if id_ not in set(known or ())]
            if known is not None and not added:
                return 0
            if len(known or ()) + len(added) > MAX_ITEMS:
                raise too_many_items()
            with suppress(Aborted, *_OUTAGE):
                ids = [*(known or ()), *added]
                self._note(_LIST, ids, await self._values.set(_LIST, ids, version))
                return len(added)
        raise Aborted("other members add items all the time")

    async def take(self, timeout: float | None = None) -> WorkItem | None:
        """Returns an item that this member holds from now on; None if the list has been made and all its items have
        ended. While others hold the remaining ones it waits for them, and for new ones, without polling.

        An item that has failed in this task comes after those that have not.

        Raises DeadlineExceeded after `timeout` seconds, by default at the end of the task's time, at most an hour.
        """
        if self._is_closed:
            raise FailedPrecondition("the work list is closed")
        limits = [limit for limit in (timeout, self._remaining()) if limit is not None] or [WAIT_SECONDS]
        try:
            async with asyncio.timeout(min(limits)), self._taking:
                if self._ids is None or any(id_ not in self._entries for id_ in self._ids):
                    await self._read_all()
                while True:
                    while (id_ := self._next_free()) is not None:
                        if (item := await self._claim(id_)) is not None:
                            return item
                    if await self._is_complete():
                        return None
                    await self._wait()
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded):
                raise
            raise DeadlineExceeded(f"no item of the work list was free within {min(limits):g} s") from None

    async def done(self, item: WorkItem, result: Any = None) -> None:
        """Ends an item with a result, a JSON value. Ending it again in the same way changes nothing.

        Raises LeaseExpired if this member does not hold the item, or not any more: another one has it, or has ended it.
        Raises ResourceExhausted for a result of more than 32 KiB, InvalidArgument if it is no JSON value.
        """
        check_bytes(result, MAX_RESULT_BYTES, f"the result of the item {item.id!r}")
        await self._end(item, lambda entry: entry.done(result))

    async def fail(self, item: WorkItem, error: str, *, is_final: bool = False) -> None:
        """Gives an item back with the reason why it failed. Another member tries it, unless this was the last try or
        `is_final`. Raises LeaseExpired as `done` does."""
        await self._end(item, lambda entry: entry.failed(error or "failed", is_final=is_final))

    async def results(self) -> WorkResults:
        """Returns the results of the list as it is now."""
        await self._read_all()
        known = {id_: self._entries[id_][0] for id_ in self._ids or () if id_ in self._entries}
        return WorkResults(
            {id_: entry.result for id_, entry in known.items() if entry.state == DONE},
            {id_: entry.error for id_, entry in known.items() if entry.state == FAILED},
            tuple(id_ for id_ in self._ids or () if id_ not in known or not known[id_].has_ended),
        )

    async def close(self, *, give_back: bool = True) -> None:
        """Stops renewing, and gives the items that the member holds to others; otherwise they wait for a later attempt
        of the task, or the end of the lease. Idempotent."""
        self._is_closed = True
        await self._renewing.close()
        held, self._held = self._held, {}
        if give_back:
            for id_, claim in held.items():
                item = WorkItem(id_, None, 0, 0, claim.tries, claim.member)
                with suppress(LeaseExpired, Aborted):
                    await self._end(
                        item, lambda entry: entry.failed("its member ended without a result", is_final=False)
                    )

    async def __aenter__(self) -> WorkList:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[WorkItem]:
        """Yields items until all have ended. One that was neither done nor failed when the next is asked for stays with
        the member."""
        while (item := await self.take()) is not None:
            yield item

    # What is known

    async def _patiently(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """Repeats a call that may be made twice while the memory service is away, at most OUTAGE_SECONDS."""
        end = self._clock() + OUTAGE_SECONDS
        for tried in count():
            try:
                return await call()
            except _OUTAGE as error:
                pause = backoff(tried, error, longest=1.0)
                if self._clock() + pause >= end:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _read_ids(self) -> tuple[list[str] | None, int]:
        current = await self._patiently(partial(self._values.get_value, _LIST))
        if current is None:
            return None, 0
        self._note(_LIST, current.value, current.version)
        return self._ids, current.version

    async def _read_all(self) -> None:
        for value in await self._patiently(self._values.list_values):
            self._note(value.key, value.value, value.version)

    async def _refresh(self, id_: str) -> tuple[Entry, int] | None:
        current = await self._patiently(partial(self._values.get_value, _ITEMS + id_))
        if current is None:
            self._entries.pop(id_, None)
            return None
        self._note(current.key, current.value, current.version)
        entry = entry_of(current.value)
        return None if entry is None else (entry, current.version)

    def _note(self, key: str, value: Any, version: int) -> None:
        if key == _LIST:
            ids = [id_ for id_ in value if isinstance(id_, str)][:MAX_ITEMS] if isinstance(value, list) else []
            if self._ids is None or len(ids) >= len(self._ids):
                self._ids = ids
            return
        id_ = key.removeprefix(_ITEMS)
        entry, known = entry_of(value), self._entries.get(id_)
        if entry is None or (known is not None and version <= known[1]):
            return
        self._entries[id_] = entry, version, self._clock()
        if id_ in self._held and entry.claim != self._held[id_]:
            del self._held[id_]

    def _next_free(self) -> str | None:
        """The item to take next: first those that have not failed in this task."""
        free = [id_ for id_ in self._ids or () if id_ in self._entries and self._is_free(id_)]
        return min(free, key=lambda id_: self._task_id in self._entries[id_][0].failed_by, default=None)

    def _is_free(self, id_: str) -> bool:
        entry, _, seen = self._entries[id_]
        if entry.state != HELD or entry.claim is None:
            return entry.state == FREE
        claim = entry.claim
        if claim.member == self._member:
            return id_ not in self._held  # the answer to the claim was lost
        return (claim.task_id == self._task_id and claim.attempt < self._attempt) or self._clock() - seen >= self._lease

    async def _is_complete(self) -> bool:
        """Whether all items have ended. The ids are read after the items, which stay ended: a member adds items before
        it ends the one that it holds, so that none of them is missed."""
        if not self._is_over:
            return False
        ids, _ = await self._read_ids()
        if any(id_ not in self._entries for id_ in ids or ()):
            await self._read_all()
        return ids is not None and all(self._has_ended(id_) for id_ in ids)

    def _has_ended(self, id_: str) -> bool:
        return id_ in self._entries and self._entries[id_][0].has_ended

    async def _wait(self) -> None:
        """Returns when an item may be free, or all have ended."""
        async with aclosing(self._values.watch()) as changes:
            change = asyncio.ensure_future(anext(changes))
            try:
                while not self._is_over and self._next_free() is None:
                    await asyncio.wait({change}, timeout=self._until_free())
                    if change.done():
                        key, value = change.result().key, change.result().value
                        if value is not None:
                            self._note(key, value.value, value.version)
                        change = asyncio.ensure_future(anext(changes))
            finally:
                change.cancel()
                await asyncio.wait({change})

    @property
    def _is_over(self) -> bool:
        return self._ids is not None and all(self._has_ended(id_) for id_ in self._ids)

    def _until_free(self) -> float | None:
        """Seconds until the first claim of another member ends if it is not renewed; None without one."""
        others = [self._entries[id_] for id_ in self._ids or () if id_ in self._entries and id_ not in self._held]
        held = [seen for entry, _, seen in others if entry.state == HELD]
        return max(SHORTEST_WAIT, min(held) + self._lease - self._clock()) if held else None

    # Claims

    async def _claim(self, id_: str) -> WorkItem | None:
        """Takes an item; None if another member was faster, or the item had its last try."""
        entry, version, _ = self._entries[id_]
        if entry.tries >= entry.most_tries:  # the member of its last try is gone
            lost = entry.failed(f"given out {entry.tries} times; its last member ended without a result", is_final=True)
            await self._write(id_, lost, version)
            return None
        claim = Claim(self._task_id, self._attempt, self._member, entry.tries + 1)
        if not await self._write(id_, entry.held_by(claim), version):
            return None
        self._held[id_] = claim
        self._renewing.start()
        ids = self._ids or [id_]
        return WorkItem(id_, entry.value, ids.index(id_) + 1, len(ids), claim.tries, claim.member)

    async def _write(self, id_: str, entry: Entry, version: int) -> bool:
        """Writes an item if it still has a version, and returns whether it did. A write whose answer was lost is looked
        up."""
        try:
            written = await self._values.set(_ITEMS + id_, entry.to_value(), version)
        except Aborted:
            await self._refresh(id_)
            return False
        except _OUTAGE:
            current = await self._refresh(id_)
            if current is None or current[1] <= version:
                return False
            return (current[0].state, current[0].claim) == (entry.state, entry.claim)
        self._note(_ITEMS + id_, entry.to_value(), written)
        return True

    async def _end(self, item: WorkItem, change: Callable[[Entry], Entry]) -> None:
        for _ in range(_WRITES):
            current = await self._refresh(item.id)
            if current is None:
                raise LeaseExpired(f"the work list has no item {item.id!r}", metadata={"item": item.id})
            entry, version = current
            claim = entry.claim
            is_mine = claim is not None and (claim.member, claim.tries) == (item.member, item.tries)
            if claim is None or not is_mine or item.member != self._member:
                raise not_held(item, entry)
            ended = change(entry)
            if entry.state != HELD:
                if (entry.state, entry.result) == (ended.state, ended.result):
                    return
                raise not_held(item, entry)
            if await self._write(item.id, ended, version):
                self._held.pop(item.id, None)
                return
        raise Aborted(f"the item {item.id!r} changes all the time")

    async def _renew_all(self) -> None:
        while True:
            await asyncio.sleep(self._lease / RENEWALS)
            for id_, claim in list(self._held.items()):
                current = await self._refresh(id_)  # drops the item if another member has it
                if current is not None and self._held.get(id_) == claim and current[0].state == HELD:
                    await self._write(id_, current[0], current[1])
            self._renewing.report_progress()
