"""`archon up` in a folder that cannot be written: one sentence, and nothing is left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fixtures.small_disk import SmallDisk, small_disk

__all__ = ["small_disk"]


def test_up_on_a_read_only_disk_is_one_sentence(small_disk: SmallDisk) -> None:
    small_disk.make_read_only()
    home = small_disk.folder / "home"
    result = Terminal(home).archon("up")
    assert result.code == 1
    assert result.error_lines[0] == f"error: cannot use the folder {home}: Read-only file system"
    assert len(result.error_lines) <= 2


@pytest.mark.parametrize("detached", [False, True], ids=["attached", "detached"])
def test_up_on_a_full_disk_names_the_file_and_the_remedy(small_disk: SmallDisk, detached: bool) -> None:
    small_disk.fill()
    terminal = Terminal(small_disk.folder / "home")
    result = terminal.archon("up", *(["--detach"] if detached else []))

    assert result.code == 1
    assert f"the disk of {small_disk.folder / 'home'} is full: 0.0 MiB are left" in result.err
    assert "make room" in result.err


def test_up_below_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = Terminal(tmp_path / "file" / "home").archon("up")
    assert result.code == 1
    assert "error: cannot use the folder" in result.error_lines[0]
    assert len(result.error_lines) <= 2


def test_up_without_room_for_etcd_is_one_sentence(small_disk: SmallDisk) -> None:
    result = Terminal(small_disk.folder / "home").archon("up")
    assert result.code == 1
    assert "72 MiB are needed; make room and start again" in result.err
