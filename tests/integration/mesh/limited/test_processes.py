"""Processes with limits that do what they were asked, and nothing beside."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from archon_mesh.limited import LimitedProcesses, LimitExceeded

IMPORTS_LATE = """
def answer(value):
    import imported_late
    return imported_late.NAME + value
"""

WRITES = """
def answer(value):
    with open(value, "w") as file:
        file.write("x")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported and were never compiled."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    return tmp_path


def test_a_module_that_is_imported_for_the_first_time_is_compiled_without_a_file(folder: Path) -> None:
    (folder / "imports_late.py").write_text(IMPORTS_LATE)
    (folder / "imported_late.py").write_text("NAME = 'late'")
    limited = LimitedProcesses("imports_late", memory_bytes=256 << 20, at_once=1)
    assert limited.call("r", cpu_seconds=20, seconds=20) == "later"
    assert not list(folder.rglob("imported_late*.pyc"))


def test_a_process_that_writes_a_file_is_ended(folder: Path) -> None:
    (folder / "writes.py").write_text(WRITES)
    limited = LimitedProcesses("writes", memory_bytes=256 << 20, at_once=1)
    with pytest.raises(LimitExceeded) as raised:
        limited.call(str(folder / "file"), cpu_seconds=20, seconds=20)
    assert raised.value.limit == "files"
