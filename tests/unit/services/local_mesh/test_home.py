"""The folder of a mesh on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_services.local_mesh import Home


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, below a folder that is no repository and not the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    folder = tmp_path / "project" / "sub" / "deeper"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path / "project"


def test_archon_home_is_the_folder(project: Path) -> None:
    assert Home.find({"ARCHON_HOME": "there"}).root == project / "sub" / "deeper" / "there"


def test_without_a_mesh_the_folder_is_in_the_current_directory(project: Path) -> None:
    (project / ".git").mkdir()
    assert Home.find({}).root == project / "sub" / "deeper" / ".archon"


@pytest.mark.parametrize("holder", ["sub", ".", "sub/deeper"])
def test_the_nearest_folder_up_to_the_root_of_the_repository_is_found(project: Path, holder: str) -> None:
    (project / ".git").mkdir()
    (project / holder / ".archon").mkdir()
    assert Home.find({}).root == (project / holder / ".archon").resolve()


def test_the_nearest_folder_up_to_the_users_home_is_found(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(project))
    (project / ".archon").mkdir()
    assert Home.find({}).root == project / ".archon"


def test_a_folder_above_the_repository_is_not_used(project: Path) -> None:
    (project / ".archon").mkdir()
    (project / "sub" / ".git").mkdir()
    assert Home.find({}).root == project / "sub" / "deeper" / ".archon"


def test_outside_of_repository_and_home_no_folder_above_is_used(project: Path) -> None:
    (project / "sub" / ".archon").mkdir()
    assert Home.find({}).root == project / "sub" / "deeper" / ".archon"


def test_a_used_folder_is_ignored_by_git(tmp_path: Path) -> None:
    home = Home(tmp_path / ".archon")
    with home.hold():
        assert (home.root / ".gitignore").read_text() == "*\n"


def test_sockets_of_killed_processes_are_removed_when_a_mesh_starts(tmp_path: Path) -> None:
    home = Home(tmp_path / ".archon")
    home.sockets.mkdir(parents=True)
    (home.sockets / "5000.sock").touch()
    with home.hold():
        assert list(home.sockets.iterdir()) == []
