"""Checks of the state file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from archon_services.cli.checks import state_file
from archon_services.local_mesh import Home
from archon_services.local_mesh.state import write_state
from tests.unit.services.cli.checks.findings import levels, texts
from tests.unit.services.cli.checks.meshes import mesh_of, this_process


def test_state_of_a_mesh_that_is_not_running_is_a_finding(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert levels(state_file.check_state(home)) == ["ok"]
    home.state_file.write_text("{")
    assert "cannot read" in texts(state_file.check_state(home))
    write_state(home, mesh_of(home=tmp_path))
    assert "left over from a mesh that is not running" in texts(state_file.check_state(home))
    write_state(home, replace(mesh_of(home=tmp_path), phase="failed", error="port 1 is in use\nmore"))
    assert "failed to start: port 1 is in use " in texts(state_file.check_state(home))
    write_state(home, mesh_of(this_process(), home=tmp_path))
    assert levels(state_file.check_state(home)) == ["problem"]
