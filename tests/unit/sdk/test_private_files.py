"""Files and folders of Archon are for their owner alone, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from archon.private_files import private_file, private_folder
from archon.server import announce
from archon_mesh.memory import SessionManager
from archon_services.memory.store.sqlite.store import SqliteStore
from archon_services.orchestrator.journal.sqlite import SqliteJournal


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    previous = os.umask(0)
    yield
    os.umask(previous)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_new_ones_are_private_and_existing_ones_stay_as_they_are(tmp_path: Path) -> None:
    folder, file = tmp_path / "a" / "b", tmp_path / "shared"
    private_folder(folder)
    private_file(folder / "file")
    assert (mode(folder), mode(folder / "file")) == (0o700, 0o600)
    file.write_text("kept")
    file.chmod(0o640)
    private_file(file)
    private_folder(folder)
    assert (mode(file), file.read_text()) == (0o640, "kept")
    with pytest.raises(FileExistsError):
        private_folder(file)


async def test_databases_are_private(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal" / "journal.db")
    await journal.open()
    async with SqliteStore(str(tmp_path / "memory" / "memory.db")):
        sessions = SessionManager(str(tmp_path / "sessions.db"))
        async with sessions.open("user", "session", "agent"):
            files = files_in(tmp_path)
        assert {"journal.db", "memory.db", "sessions.db"} <= {path.name for path in files}
        assert [path.name for path in files if mode(path) & 0o077] == []
        assert mode(tmp_path / "journal") == mode(tmp_path / "memory") == 0o700
        await sessions.close()
    await journal.close()


def test_a_link_of_another_user_is_no_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    private_file(tmp_path / "link")  # the user's own
    entry = os.lstat(tmp_path / "link")
    fields = [*entry[:4], 4242, *entry[5:]]
    monkeypatch.setattr(Path, "lstat", lambda self: os.stat_result(fields))
    with pytest.raises(OSError, match="it is a link of another user"):
        private_file(tmp_path / "link")
    assert not (tmp_path / "target").exists()


def test_a_ready_file_is_written_through_no_link(tmp_path: Path) -> None:
    precious, ready = tmp_path / "precious", tmp_path / "ready"
    precious.write_text("precious")
    (tmp_path / f".ready.{os.getpid()}").symlink_to(precious)
    ready.symlink_to(precious)
    announce(ready, "127.0.0.1:1")
    assert (ready.read_text(), ready.is_symlink(), precious.read_text()) == ("127.0.0.1:1", False, "precious")
