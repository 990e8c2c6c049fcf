"""The cache of builds: it stores and fetches archives, and its errors do no harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import cache


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that only this test uses."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "cache")
    return tmp_path / "cache"


def test_a_stored_file_is_fetched_with_its_mode(archives: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    cache.store("program-v1", program.parent, "program")
    assert cache.has("program-v1")
    assert cache.fetch("program-v1", tmp_path / "there")
    assert (tmp_path / "there" / "program").stat().st_mode & 0o777 == 0o755
    assert not cache.fetch("program-v2", tmp_path / "there")


def test_a_broken_archive_is_not_fetched(archives: Path, tmp_path: Path) -> None:
    archives.mkdir()
    (archives / "program-v1.tar").write_bytes(b"broken")
    assert not cache.fetch("program-v1", tmp_path)


def test_a_cache_that_cannot_be_written_stores_nothing(archives: Path, tmp_path: Path) -> None:
    archives.write_text("a file where the folder should be")
    cache.store("program-v1", tmp_path)
    assert not cache.has("program-v1")


def test_old_archives_of_a_program_are_deleted(archives: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    for version in range(cache.KEPT + 3):
        cache.store(f"program-v{version}", tmp_path / "source")
    assert len(list(archives.glob("program-*.tar"))) == cache.KEPT
