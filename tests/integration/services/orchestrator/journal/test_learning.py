"""Learned weights and marks of runs, tested on each store."""

from __future__ import annotations

import asyncio

import pytest

from archon.errors import ResourceExhausted
from archon_services.orchestrator.journal import (
    DetailedRun,
    EvidenceRow,
    Journal,
    LearnedRow,
    MarkRow,
    RatingRow,
    UnlearnedRow,
    learning,
)
from archon_services.orchestrator.journal.memory import learning as memory_learning
from archon_services.orchestrator.journal.memory import retained as memory_retained
from archon_services.orchestrator.journal.postgres import learning as postgres_learning
from archon_services.orchestrator.journal.sqlite import learning as sqlite_learning
from archon_services.orchestrator.journal.sqlite import retained as sqlite_retained
from tests.fixtures.journal import creation, new_run, store


def version(number: int, tenant: str = "default") -> LearnedRow:
    return LearnedRow(tenant, number, 1.5, f"v{number}".encode())


async def ended(journal: Journal, run_id: str, time: float, tenant: str = "default") -> UnlearnedRow:
    await store(journal, creation(new_run(run_id, tenant=tenant), time=time, ended=True, state=4))
    return UnlearnedRow(run_id, tenant, time)


async def test_evidence_marks_and_version_are_stored_together(journal: Journal) -> None:
    outcomes = [await ended(journal, f"r{number}", 100.0 + number) for number in range(3)]
    assert await journal.unlearned(100.5, 10) == outcomes[1:]
    assert await journal.unlearned(0.0, 2) == outcomes[:2]
    elsewhere = await ended(journal, "e", 99.0, "acme")
    assert await journal.unlearned(0.0, 1, ["default"]) == [elsewhere]
    assert await journal.unlearned(0.0, 10, ["acme", "other"]) == outcomes
    assert await journal.learn("acme", 0, b"", [elsewhere])
    assert await journal.learn("default", 0, b"one", outcomes[:2], version(1))
    assert await journal.unlearned(0.0, 10) == outcomes[2:]
    assert await journal.learned_evidence("default") == EvidenceRow(1, b"one")
    assert await journal.learned_versions("default") == [version(1)]
    assert not await journal.learn("default", 0, b"two", outcomes[2:]), "another revision"
    assert not await journal.learn("default", 1, b"two", outcomes[1:]), "one is marked"
    assert not await journal.learn("default", 1, b"two", outcomes[2:], version(1)), "the version exists"
    assert await journal.unlearned(0.0, 10) == outcomes[2:], "nothing was stored"
    assert await journal.learned_evidence("default") == EvidenceRow(1, b"one")
    assert await journal.learned_evidence("unheard-of") == EvidenceRow(0, b"")


async def test_of_replicas_that_learn_at_once_one_does(journal: Journal) -> None:
    outcome = await ended(journal, "r", 100.0)
    calls = [journal.learn("default", 0, b"x", [outcome], version(1)) for _ in range(8)]
    assert sorted(await asyncio.gather(*calls)) == [False] * 7 + [True]


async def test_ratings_are_outcomes_of_their_own(journal: Journal) -> None:
    end = await ended(journal, "r", 100.0)
    await journal.rate("r", RatingRow("ann", 2, "", 120.0))
    await journal.rate("r", RatingRow("bob", 5, "", 110.0))
    bob = UnlearnedRow("r", "default", 110.0, True, "bob", 5)
    ann = UnlearnedRow("r", "default", 120.0, True, "ann", 2)
    assert await journal.unlearned(0.0, 10) == [end, bob, ann]
    assert await journal.learn("default", 0, b"x", [end, ann])
    await journal.rate("r", RatingRow("ann", 5, "", 130.0))
    assert await journal.unlearned(0.0, 10) == [bob], "ann's counts once"
    await journal.compact("r", b"summary")
    assert await journal.unlearned(0.0, 10) == [bob], "a summary is enough for it"


async def test_versions_are_listed_newest_first_and_bounded(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (memory_learning, sqlite_learning, postgres_learning):
        monkeypatch.setattr(module, "MAX_VERSIONS", 3)
    for number in range(1, 6):
        assert await journal.learn("default", number - 1, b"x", version=version(number))
    assert await journal.learn("acme", 0, b"x", version=version(1, "acme"))
    assert [row.version for row in await journal.learned_versions("default")] == [5, 4, 3]
    assert [row.version for row in await journal.learned_versions("default", before=5, limit=1)] == [4]
    assert await journal.learned_tenants() == ["acme", "default"]
    assert learning.MAX_VERSIONS > 3


async def test_marks_replace_the_same_identity_and_go_with_the_run(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = await ended(journal, "r", 100.0)
    await journal.learn("default", 0, b"x", [outcome])
    await journal.mark("r", MarkRow("ann", "slow", 1.0))
    await journal.mark("r", MarkRow("bob", "", 2.0))
    await journal.mark("r", MarkRow("ann", "wrong", 3.0))
    assert await journal.marks("r") == [MarkRow("bob", "", 2.0), MarkRow("ann", "wrong", 3.0)]
    if not type(journal).__name__.startswith("Postgres"):  # whose statement is made once
        for module in (memory_retained, sqlite_retained):
            monkeypatch.setattr(module, "MAX_MARKS", 2)
        with pytest.raises(ResourceExhausted):
            await journal.mark("r", MarkRow("eve", "", 4.0))
    assert await journal.unmark("r") == 2
    assert await journal.unmark("r") == 0
    await journal.mark("r", MarkRow("ann", "", 5.0))
    assert await journal.delete(200.0, 300.0, 60.0) == 1
    assert await journal.marks("r") == []
    await ended(journal, "r", 400.0)
    assert await journal.unlearned(0.0, 10) == [UnlearnedRow("r", "default", 400.0)], "its mark went with it"


async def test_detailed_runs_are_paged_in_the_order_of_their_end(journal: Journal) -> None:
    for run_id, time in (("b", 100.0), ("a", 100.0), ("c", 120.0), ("late", 500.0)):
        await ended(journal, run_id, time)
    await journal.mark("c", MarkRow("ann", "", 1.0))
    first = await journal.detailed_runs(200.0, (0.0, ""), 2)
    assert first == [DetailedRun("a", "default", 4, 100.0, False), DetailedRun("b", "default", 4, 100.0, False)]
    rest = await journal.detailed_runs(200.0, (100.0, "b"), 2)
    assert rest == [DetailedRun("c", "default", 4, 120.0, True)]
    await journal.compact("c", b"summary")
    assert await journal.detailed_runs(200.0, (100.0, "b"), 2) == []


async def test_turns_are_deleted_apart_from_runs(journal: Journal) -> None:
    await ended(journal, "r", 100.0)
    assert await journal.delete(0.0, 300.0, 60.0, turns_before=200.0) == 0
    assert await journal.run("r") is not None
