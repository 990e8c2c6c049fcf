"""A publication that fails again and again is given up, and publications of other scopes never wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from archon.api.orchestrator.v1 import run_pb2
from archon.errors import DeadlineExceeded, Internal, InvalidArgument, ResourceExhausted, Unavailable
from archon.memory import Published, PublishItem
from archon_services.orchestrator.journal import Publication
from archon_services.orchestrator.journal.memory.journal import MemoryJournal
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.manager import Runs
from archon_services.orchestrator.shared_memory.held_scopes import MAX_FAILURES, MOST_FAILURES
from archon_services.orchestrator.shared_memory.outbox import OutboxPublisher
from tests.fixtures.journal import new_run, step_of, store
from tests.fixtures.virtual_time import in_virtual_time, pass_time


class Memory:
    """A client of a memory service that fails as `errors` says by scope; "*" stands for all."""

    def __init__(self, errors: dict[str, Exception]) -> None:
        self.errors = errors
        self.published: list[tuple[str, int]] = []
        self.tries: dict[str, int] = {}

    async def publish_items(self, items: list[PublishItem], *, scope: str, **_: Any) -> list[Any]:
        self.tries[scope] = self.tries.get(scope, 0) + 1
        error = self.errors.get("*") or self.errors.get(scope)
        if isinstance(error, DeadlineExceeded):
            await pass_time(5.0)
        if error is not None:
            raise error
        self.published += [(scope, item.seq) for item in items]
        return [Published(item.role, 1) for item in items]

    async def close(self) -> None:
        pass


class Outbox:
    """An outbox over a journal in memory; `add` commits a run whose events are answers for these scopes."""

    def __init__(self, **errors: Exception) -> None:
        self.journal, self.memory = MemoryJournal(), Memory(errors)
        self._runs = Runs(owner="owner", clock=JournalClock(self.journal), journal=self.journal, new_id=lambda: "new")
        self.publisher = OutboxPublisher(self.journal, self._runs, "127.0.0.1:1", keep=60.0)

    async def start(self) -> None:
        await self.publisher._client.close()
        self.publisher._client = self.memory  # type: ignore[assignment]
        self.publisher.start()

    async def add(self, run_id: str, *scopes: str) -> None:
        events = []
        for seq in range(1, len(scopes) + 1):
            event = run_pb2.RunEvent(run_id=run_id, seq=seq)
            event.task.task_id = f"{run_id}.1"
            event.result.output.add(text="an answer")
            events.append(event.SerializeToString())
        rows = tuple(Publication(scope, "a", f"{run_id}.1", seq) for seq, scope in enumerate(scopes, 1))
        await store(self.journal, step_of(run_id, 0, events, new=new_run(run_id), publications=rows))
        self.publisher.wake(len(scopes))

    async def left(self) -> list[str]:
        return [row.publication.scope for row in await self.journal.outbox("owner")]

    async def close(self) -> None:
        await self.publisher.close()
        await self._runs.stop()


ERRORS = (Internal("boom"), DeadlineExceeded("slow"), Unavailable("gone"), ResourceExhausted("full"), ValueError("odd"))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@in_virtual_time
async def test_other_scopes_do_not_wait_for_one_that_fails(error: Exception) -> None:
    outbox = Outbox(bad=error)
    await outbox.add("r1", "bad", "good", "bad", "fine")
    await outbox.start()
    await pass_time(10.0)
    assert [scope for scope, _ in outbox.memory.published] == ["good", "fine"]
    await outbox.add("r2", "more")
    await pass_time(0.1)
    assert outbox.memory.published[-1] == ("more", 1)
    await outbox.close()


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@in_virtual_time
async def test_a_publication_that_keeps_failing_is_given_up_and_named(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    outbox = Outbox(bad=error)
    await outbox.add("r1", "bad", "good")
    await outbox.start()
    for number in range(MAX_FAILURES + 1):  # others are published all the time
        await outbox.add(f"other-{number}", f"scope-{number}")
        await pass_time(12.0)
    assert await outbox.left() == []
    assert MAX_FAILURES <= outbox.memory.tries["bad"] <= 3 * MAX_FAILURES
    (line,) = (each for each in caplog.records if each.levelname == "ERROR" and "r1" in each.getMessage())
    assert line.getMessage().startswith("event 1 of run r1 is not published in the shared memory: ")
    await outbox.close()


@in_virtual_time
async def test_the_order_within_a_scope_is_kept_after_a_failure() -> None:
    outbox = Outbox(bad=Internal("boom"))
    await outbox.add("r1", "bad", "bad", "good")
    await outbox.start()
    await pass_time(1.0)
    await outbox.add("r2", "bad")
    del outbox.memory.errors["bad"]
    await pass_time(10.0)
    assert [seq for scope, seq in outbox.memory.published if scope == "bad"] == [1, 2, 1]
    assert await outbox.left() == []
    await outbox.close()


@pytest.mark.parametrize("error", ERRORS[1:4], ids=lambda error: type(error).__name__)
@in_virtual_time
async def test_nothing_is_given_up_in_an_outage(error: Exception) -> None:
    outbox = Outbox(**{"*": error})
    for number in range(8):
        await outbox.add(f"r{number}", f"s{number}", f"s{number}")
    await outbox.start()
    await pass_time(1800.0)
    assert len(await outbox.left()) == 16
    del outbox.memory.errors["*"]
    await pass_time(60.0)
    assert await outbox.left() == []
    assert sorted(outbox.memory.published) == sorted((f"s{n}", seq) for n in range(8) for seq in (1, 2))
    await outbox.close()


@in_virtual_time
async def test_a_service_that_refuses_everything_is_tried_for_minutes() -> None:
    outbox = Outbox(**{"*": Internal("disk full")})
    await outbox.add("r1", "s1")
    await outbox.add("r2", "s2")
    await outbox.start()
    await pass_time(120.0)
    assert len(await outbox.left()) == 2
    await pass_time(MOST_FAILURES * 6.0)
    assert await outbox.left() == []
    await outbox.close()


@in_virtual_time
async def test_a_refused_publication_is_given_up_at_once() -> None:
    outbox = Outbox(bad=InvalidArgument("too large"))
    await outbox.add("r1", "bad", "bad", "good")
    await outbox.start()
    await pass_time(0.1)
    assert (await outbox.left(), outbox.memory.tries["bad"]) == ([], 2)
    assert outbox.publisher.pending == 0
    await outbox.close()
