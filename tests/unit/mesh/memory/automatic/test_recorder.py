"""Entries that a memory cannot take wait, within bounds, and are stored once."""

from __future__ import annotations

from collections.abc import Mapping

from archon.errors import InvalidArgument, RequestIdReused, Unavailable
from archon.memory.long_term.entry import FoundEntry, LongTermEntry
from archon_mesh.memory.automatic.access import MemoryAccess
from archon_mesh.memory.automatic.recorder import Recorder
from archon_mesh.memory.long_term import NewEntry


class Served:
    """A served memory that raises `error` while it is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.stored: dict[str, str] = {}
        self.refused = ""

    async def store(
        self, content: str, metadata: Mapping[str, str] | None = None, importance: float = 0.5, *, request_id: str = ""
    ) -> str:
        if self.error is not None:
            raise self.error
        if content == self.refused:
            raise InvalidArgument("refused")
        if self.stored.setdefault(request_id, content) != content:
            raise RequestIdReused("reused")
        return request_id

    async def query(
        self, query_text: str, limit: int = 5, threshold: float | None = None, filters: Mapping[str, str] | None = None
    ) -> list[FoundEntry]:
        return []

    async def recent(self, limit: int = 5, filters: Mapping[str, str] | None = None) -> list[LongTermEntry]:
        return []

    async def feedback(self, entry_id: str, useful: bool) -> bool:
        return True


def entry(text: str) -> NewEntry:
    return NewEntry(text, request_id=text)


async def test_what_waits_is_stored_with_the_next_run() -> None:
    served, now = Served(), [0.0]
    recorder = Recorder(MemoryAccess(served, monotonic=lambda: now[0]))
    served.error = Unavailable("down")
    await recorder.store([entry("a")])
    await recorder.store([entry("b")], is_down=True)
    assert (recorder.waiting, served.stored) == (2, {})
    served.error, now[0] = None, 60.0
    await recorder.store([entry("c")])
    assert (recorder.waiting, list(served.stored)) == (0, ["a", "b", "c"])


async def test_what_waits_is_bounded_in_count_and_bytes() -> None:
    served = Served()
    served.error = Unavailable("down")
    for bounds, left in (({"max_waiting": 3}, 3), ({"max_bytes": 25}, 2)):
        recorder = Recorder(MemoryAccess(served), **bounds)
        for number in range(10):
            await recorder.store([entry(f"entry {number:04}")])
        assert recorder.waiting == left


async def test_a_refused_entry_does_not_take_others_with_it() -> None:
    served = Served()
    served.refused = "b"
    recorder = Recorder(MemoryAccess(served))
    await recorder.store([entry("a"), entry("b"), entry("c")])
    assert (recorder.waiting, list(served.stored)) == (0, ["a", "c"])


async def test_a_repeated_run_with_another_answer_stores_once() -> None:
    served = Served()
    recorder = Recorder(MemoryAccess(served))
    await recorder.store([NewEntry("one answer", request_id="t1")])
    await recorder.store([NewEntry("another answer", request_id="t1")])
    assert (recorder.waiting, served.stored) == (0, {"t1": "one answer"})


async def test_flush_ends_while_the_memory_is_down() -> None:
    served = Served()
    served.error = Unavailable("down")
    recorder = Recorder(MemoryAccess(served))
    await recorder.store([entry(str(number)) for number in range(120)])
    await recorder.flush()
    assert recorder.waiting == 120
