"""Checks of the machine: folder, disk, SQLite and ports."""

from __future__ import annotations

import socket
from pathlib import Path

from archon_services.cli.checks import machine
from archon_services.local_mesh import Home, MeshOptions, ProcessState, make_plan
from archon_services.local_mesh.ports import DEFAULT_PORTS
from tests.unit.services.cli.checks.findings import levels, texts
from tests.unit.services.cli.checks.meshes import mesh_of


def test_unusable_home_and_low_disk_space_are_findings(tmp_path: Path) -> None:
    assert levels(machine.check_home(Home(tmp_path / "not" / "yet"))) == ["ok"]
    assert not any(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    assert levels(machine.check_home(Home(file / "below"))) == ["problem"]
    assert "is a file" in texts(machine.check_home(Home(file)))
    for free, level in ((10 * 1024**2, "problem"), (500 * 1024**2, "warning"), (10 * 1024**3, "ok")):
        assert levels(machine.check_home(Home(tmp_path), free=free)) == [level]


def test_read_only_home_is_a_problem() -> None:
    assert levels(machine.check_home(Home(Path("/proc/1")))) == ["problem"]
    assert levels(machine.check_sqlite(Home(Path("/proc/1")))) == ["problem"]


def test_old_sqlite_is_a_problem(tmp_path: Path) -> None:
    assert levels(machine.check_sqlite(Home(tmp_path))) == ["ok"]
    assert not any(tmp_path.iterdir())
    findings = machine.check_sqlite(Home(tmp_path), (3, 34, 1))
    assert levels(findings) == ["problem"] and "3.35" in texts(findings)


def test_default_ports_are_those_of_a_mesh(tmp_path: Path) -> None:
    plan = make_plan(Home(tmp_path), MeshOptions(replicas={"designer": 0}))
    addresses = {spec.name: spec.address for spec in plan.specs if spec.name in DEFAULT_PORTS}
    notes = " ".join(plan.notes)
    for name, port in DEFAULT_PORTS.items():
        assert addresses[name] == f"127.0.0.1:{port}" or f"port {port} is in use" in notes


def test_port_in_use_is_a_warning_unless_by_this_mesh() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        findings = machine.check_ports(None, ports={"memory": port})
        assert levels(findings) == ["warning"] and f"{port} (memory) is in use" in texts(findings)
        state = mesh_of(ProcessState("memory", "service", "healthy", address=f"127.0.0.1:{port}"))
        assert levels(machine.check_ports(state, ports={"memory": port})) == ["ok"]
        addresses = [f"127.0.0.1:{port}"]
        assert levels(machine.check_ports(None, addresses, ports={"memory": port})) == ["ok"]
    assert levels(machine.check_ports(None, ports={"memory": port})) == ["ok"]
