"""The files of a new agent in another language, and the commands that are printed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_services.cli.new_project import LANGUAGES, project, steps
from archon_services.local_mesh.ports import DEFAULT_PORTS

REGISTRY = f"ARCHON_REGISTRY=127.0.0.1:{DEFAULT_PORTS['registry']}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a mesh that does not run; its name needs quotes."""
    folder = tmp_path / "my mesh"
    monkeypatch.setenv("ARCHON_HOME", str(folder))
    return folder


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_commands_name_the_role_its_folder_and_the_mesh(language: str, home: Path, tmp_path: Path) -> None:
    lines = [line.strip() for line in steps("greeter", tmp_path / "my agents" / "greeter", language)]
    assert f"cd '{tmp_path}/my agents/greeter'" in lines
    assert f"export ARCHON_HOME='{home}' {REGISTRY}" in lines
    assert f"ARCHON_HOME='{home}' archon run --role greeter \"hello\"" in lines
    assert "`archon token --role greeter`" in lines[-1]


def test_a_folder_that_cannot_be_used_is_not_named(home: Path, tmp_path: Path) -> None:
    home.mkdir()
    home.chmod(0o777)
    assert f"  export {REGISTRY}" in steps("greeter", tmp_path, "go")


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_mark_of_a_template_is_left(language: str, tmp_path: Path) -> None:
    for path, text in project("greeter", tmp_path, language).items():
        for mark in ("@name@", "@version@", "@replace@", "@sdk@"):
            assert mark not in text, path


@pytest.mark.parametrize("name", ["log", "context", "go", "cmd"])
def test_a_role_with_the_name_of_a_package_of_go_is_a_module(name: str, tmp_path: Path) -> None:
    assert project(name, tmp_path, "go")[tmp_path / "go.mod"].startswith(f"module example.com/{name}\n")
