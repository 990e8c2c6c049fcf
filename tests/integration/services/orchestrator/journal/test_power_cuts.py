"""A power cut takes no step that a journal with `full` has acknowledged, wherever it falls."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from archon_services.orchestrator.journal.sqlite import wal
from archon_services.orchestrator.journal.sqlite.journal import SqliteJournal
from tests.fixtures.journal import commit_group, create, creation, new_run, step, store, stored_events
from tests.fixtures.power_cut import Recording, Sync, recorded
from tests.fixtures.variants import one_in

NAME = "journal.db"


async def record(folder: Path, rounds: int) -> tuple[Recording, list[tuple[int, str, int]]]:
    """Commits steps of several runs over several rounds of the write-ahead log. Returns what was written, and after
    how many operations which step of which run was acknowledged."""
    journal = SqliteJournal(folder / NAME)
    await journal.open()
    await journal.close()
    acknowledged: list[tuple[int, str, int]] = []
    with recorded(folder) as recording:
        await journal.open()
        opened = len(recording.operations)
        for number in range(rounds):
            await create(journal, f"r{number}", count=2)
            acknowledged.append((len(recording.operations), f"r{number}", 2))
            await store(journal, step(f"r{number}", 2, 3, inputs=bytes(20_000)))
            acknowledged.append((len(recording.operations), f"r{number}", 5))
            group = [step(f"r{number}", 5, 1, ended=True), creation(new_run(f"g{number}"))]
            await commit_group(journal, *group)
            acknowledged += [(len(recording.operations), f"r{number}", 6), (len(recording.operations), f"g{number}", 1)]
            await journal.checkpoint()
        await journal.close()
    assert any(isinstance(operation, Sync) for operation in recording.operations[opened:])
    return recording, acknowledged


async def check(folder: Path, expected: dict[str, int]) -> None:
    journal = SqliteJournal(folder / NAME)
    await journal.open()
    try:
        for run_id, seq in expected.items():
            events = await stored_events(journal, run_id)
            assert len(events) >= seq, f"{run_id} has {len(events)} of {seq} events"
            assert events == [f"{run_id}:{number}".encode() for number in range(1, len(events) + 1)]
        runs = await journal.runs(tenant="default", limit=1_000)
        assert {row.run_id for row in runs} >= set(expected)
        for row in runs:
            assert len(await stored_events(journal, row.run_id)) == row.last_seq
    finally:
        await journal.close()


@pytest.mark.parametrize(
    ("rounds", "every"), [(8, 7), pytest.param(8, 1, marks=pytest.mark.search)], ids=["some cuts", "every cut"]
)
@pytest.mark.parametrize("kept", one_in(3, ["parts", "all", "none"]))
async def test_durability_a_power_cut_takes_nothing_that_was_acknowledged(
    kept: str, rounds: int, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is extended, written back and begun anew several times; cuts fall into all of it."""
    monkeypatch.setattr(wal, "CHECKPOINT_BYTES", 100_000)
    folder = tmp_path / "mesh"
    folder.mkdir()
    recording, acknowledged = await record(folder, rounds)
    (tmp_path / "cuts").mkdir()
    for number in range(0, len(recording.operations) + 1, every):
        rng = random.Random(number) if kept == "parts" else None
        place = tmp_path / "cuts" / str(number)
        recording.cut(number, place, rng, lost=kept == "none")
        await check(place, {run_id: seq for operations, run_id, seq in acknowledged if operations <= number})
