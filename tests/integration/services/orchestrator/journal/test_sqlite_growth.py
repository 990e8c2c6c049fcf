"""What SQLite does for a run does not grow with the runs that lie in the journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from archon_services.orchestrator.journal import Publication
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import commit_group, creation, new_run, step, store
from tests.fixtures.sqlite_instructions import instructions

FEW, MANY = 30, 3_000
DEPTH = 1.5
"""What a tree that is a hundred times as large may cost more."""

PUBLICATION = Publication("scope", "designer", "t", 2)


async def filled(path: Path, runs: int) -> SqliteJournal:
    """Returns a journal with runs that have ended and are compacted."""
    journal = SqliteJournal(path, sync="normal")
    await journal.open()
    for first in range(0, runs, 500):
        ids = [f"old{number}" for number in range(first, min(first + 500, runs))]
        await commit_group(journal, *(creation(new_run(id_, f"request-{id_}", session="s")) for id_ in ids))
        await commit_group(journal, *(step(id_, 1, changed=True, ended=True, time=1_000.0 + first) for id_ in ids))
        for id_ in ids:
            await journal.compact(id_, b"summary")
    return journal


async def whole_run(journal: SqliteJournal) -> None:
    await store(journal, creation(new_run("new", "request", session="s")))
    await store(journal, step("new", 1, publications=(PUBLICATION,)))
    await store(journal, step("new", 2, changed=True, ended=True))


async def same_request(journal: SqliteJournal) -> None:
    await store(journal, creation(new_run("again", "request-old3", session="s")))


async def first_page(journal: SqliteJournal) -> None:
    assert len(await journal.runs(tenant="default", limit=10)) == 10


async def one_run(journal: SqliteJournal) -> None:
    assert await journal.run("old7") is not None
    assert await journal.steps("old7", 0, 1_000_000) == []


async def newest_id(journal: SqliteJournal) -> None:
    assert await journal.last_run_id()


async def ended_last(journal: SqliteJournal) -> None:
    assert len(await journal.last_ended(10)) == 10


async def due_publications(journal: SqliteJournal) -> None:
    assert await journal.outbox("a", 10) == []
    assert not await journal.unpublished("other")


async def nothing_to_compact_or_delete(journal: SqliteJournal) -> None:
    assert await journal.compactable(5_000.0) == []
    assert await journal.delete(1.0, 2.0, 3.0) == 0


@pytest.mark.parametrize(
    "work",
    [
        whole_run,
        same_request,
        first_page,
        one_run,
        newest_id,
        ended_last,
        due_publications,
        nothing_to_compact_or_delete,
    ],
)
async def test_work_for_one_run_does_not_grow_with_the_others(
    work: Callable[[SqliteJournal], Awaitable[None]], tmp_path: Path
) -> None:
    counts = []
    for runs in (FEW, MANY):
        journal = await filled(tmp_path / f"{runs}.db", runs)
        counts.append(await instructions(work(journal), journal._connection, journal._reader))
        await journal.close()
    few, many = counts
    assert few > 0
    assert many <= few * DEPTH, f"{few} instructions beside {FEW} runs, {many} beside {MANY}"
