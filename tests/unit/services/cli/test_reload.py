"""The files at which `archon serve --reload` looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_services.cli import reload


def test_versions_have_python_and_yaml_files_of_the_folder_only(tmp_path: Path) -> None:
    for name in ("agent.yaml", "tools.py", "notes.txt", "more.yml"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "other.py").write_text("x")
    before = reload.versions(tmp_path)
    assert {path.name for path in before} == {"agent.yaml", "tools.py", "more.yml"}
    (tmp_path / "tools.py").write_text("longer")
    (tmp_path / "more.yml").unlink()
    now = reload.versions(tmp_path)
    assert {path.name for path in {**now, **before} if now.get(path) != before.get(path)} == {"tools.py", "more.yml"}


def test_the_files_that_are_looked_at_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "MAX_FILES", 3)
    for number in range(5):
        (tmp_path / f"tools_{number}.py").write_text("x")
    assert len(reload.versions(tmp_path)) == 3
