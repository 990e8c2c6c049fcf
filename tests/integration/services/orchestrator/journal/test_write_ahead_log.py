"""The write-ahead log of a SQLite journal keeps its size: it is written back and used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_services.orchestrator.journal.sqlite import SqliteJournal, wal
from archon_services.orchestrator.journal.sqlite.wal import in_use
from tests.fixtures.journal import create, step, store, stored_events

SIZE = 400_000
STEPS = 120


def size_of(file: Path) -> int:
    return file.stat().st_size


@pytest.mark.parametrize("sync", ["full", "normal"])
async def test_the_log_is_written_back_and_used_again(
    sync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "CHECKPOINT_BYTES", SIZE)
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, sync=sync)  # type: ignore[arg-type]
    await journal.open()
    try:
        await create(journal, "r")
        log = Path(f"{path}-wal")
        await journal.checkpoint()
        assert (size_of(log) >= SIZE) == (sync == "full"), "extended before it is needed"
        rounds, salts = 0, in_use(log)[0]
        for base in range(1, STEPS):
            await store(journal, step("r", base, inputs=bytes(10_000)))
            await journal.checkpoint()
            found, used = in_use(log)
            rounds, salts = rounds + (found != salts), found
            assert used < SIZE + 50_000
        assert rounds > 2
        assert size_of(log) < SIZE + 50_000
        assert len(await stored_events(journal, "r")) == STEPS
    finally:
        await journal.close()
