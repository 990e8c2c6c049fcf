"""The folder of a mesh on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archon.errors import FailedPrecondition, NotFound
from archon_services.local_mesh import Home
from archon_services.local_mesh.jaeger import find_jaeger


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


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o702, 0o720, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(project: Path, mode: int) -> None:
    home = Home(Path.cwd() / ".archon")
    home.root.mkdir()
    home.root.chmod(mode)
    for use in (lambda: Home.find({}), lambda: Home.find({"ARCHON_HOME": ".archon"}), home.hold().__enter__):
        with pytest.raises(FailedPrecondition, match=r"other users can write to it \(chmod go-w .*ARCHON_HOME$"):
            use()
    assert list(home.root.iterdir()) == []


def test_a_folder_of_another_user_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(Path.cwd() / ".archon")
    home.root.mkdir()
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    for use in (lambda: Home.find({}), lambda: Home.find({"ARCHON_HOME": ".archon"}), home.hold().__enter__):
        with pytest.raises(FailedPrecondition, match=f"it belongs to user {uid}"):
            use()
    assert list(home.root.iterdir()) == []


def test_a_found_folder_that_is_a_link_is_refused(project: Path) -> None:
    (project / "target").mkdir()
    (Path.cwd() / ".archon").symlink_to(project / "target")
    with pytest.raises(FailedPrecondition, match="it is a link"):
        Home.find({})
    assert Home.find({"ARCHON_HOME": ".archon"}).root.name == ".archon"


@pytest.mark.parametrize(
    "name",
    [
        "state.json",
        "lock",
        ".gitignore",
        "journal.db",
        "control.sock",
        "logs",
        "logs/registry.log",
        "run/registry",
        "run",
    ],
)
@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link"])
def test_a_folder_with_links_is_refused(project: Path, name: str, kind: str) -> None:
    home = Home(Path.cwd() / ".archon")
    target = project / "precious"
    if kind != "link to nothing":
        target.write_text("precious")
    (home.root / name).parent.mkdir(parents=True)
    if kind == "hard link":
        (home.root / name).hardlink_to(target)
    else:
        (home.root / name).symlink_to(target)
    with pytest.raises(FailedPrecondition, match=f"it contains the link {name}"), home.hold():
        pass
    assert not target.exists() if kind == "link to nothing" else target.read_text() == "precious"


def test_a_file_of_another_user_in_the_folder_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(Path.cwd() / ".archon")
    (home.root / "logs").mkdir(parents=True)
    monkeypatch.setattr("archon_services.local_mesh.home.Home.check", lambda self: None)
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    with pytest.raises(FailedPrecondition, match=f"logs in it belongs to user {uid}"), home.hold():
        pass


def test_a_current_directory_that_was_removed_is_one_sentence(project: Path) -> None:
    Path.cwd().rmdir()
    for environment in ({}, {"ARCHON_HOME": "there"}):
        with pytest.raises(FailedPrecondition, match="the current directory has been removed"):
            Home.find(environment)


def test_a_mesh_starts_again_in_its_folder(tmp_path: Path) -> None:
    home = Home(tmp_path / ".archon")
    for _ in range(2):
        with home.hold():
            home.log_file("registry").touch()


def test_a_program_that_others_can_replace_is_not_executed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    program = Path.cwd() / ".tools" / "bin" / "jaeger"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert find_jaeger() == program
    for part in (program, program.parent, program.parent.parent):
        mode = part.stat().st_mode
        part.chmod(0o777)
        with pytest.raises(NotFound, match=f"is not executed, because of {part}: other users can write to it"):
            find_jaeger()
        part.chmod(mode)
