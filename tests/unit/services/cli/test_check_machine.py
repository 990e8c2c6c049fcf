"""The machine and what runs on it, as `archon doctor` finds it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from archon_services.cli.checks import clock, leftovers, machine, running
from archon_services.local_mesh import Home, MeshOptions, MeshState, ProcessState, make_plan
from archon_services.local_mesh.state import birth_of, write_state
from tests.unit.services.cli.found import levels, said


def mesh(*processes: ProcessState, home: Path = Path("/nowhere"), **more: str) -> MeshState:
    return MeshState("ready", os.getpid(), str(home), processes, **more)  # type: ignore[arg-type]


def this_process(**changed: object) -> ProcessState:
    """A process of a mesh that really lives, since it is this one."""
    pid = os.getpid()
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(birth_of(pid)) / os.sysconf("SC_CLK_TCK")
    one = ProcessState("memory", "service", "healthy", pid, "127.0.0.1:1", 0, time.time() - age, birth_of(pid))
    return replace(one, **changed)  # type: ignore[arg-type]


def test_a_folder_that_can_not_be_used_is_a_problem(tmp_path: Path) -> None:
    assert levels(machine.check_home(Home(tmp_path / "not" / "yet"))) == ["ok"]
    assert not any(tmp_path.iterdir())
    file = tmp_path / "file"
    file.touch()
    assert levels(machine.check_home(Home(file / "below"))) == ["problem"]
    assert "is a file" in said(machine.check_home(Home(file)))
    for room, level in ((10 * 1024**2, "problem"), (500 * 1024**2, "warning"), (10 * 1024**3, "ok")):
        assert levels(machine.check_home(Home(tmp_path), free=room)) == [level]


def test_a_folder_on_which_nothing_can_be_written_is_a_problem() -> None:
    assert levels(machine.check_home(Home(Path("/proc/1")))) == ["problem"]
    assert levels(machine.check_sqlite(Home(Path("/proc/1")))) == ["problem"]


def test_sqlite_must_be_new_enough(tmp_path: Path) -> None:
    assert levels(machine.check_sqlite(Home(tmp_path))) == ["ok"]
    assert not any(tmp_path.iterdir())
    found = machine.check_sqlite(Home(tmp_path), (3, 34, 1))
    assert levels(found) == ["problem"] and "3.35" in said(found)


def test_the_usual_ports_are_those_that_a_mesh_takes(tmp_path: Path) -> None:
    plan = make_plan(Home(tmp_path), MeshOptions(replicas={"designer": 0}))
    taken = {spec.name: spec.address for spec in plan.specs if spec.name in machine.USUAL_PORTS}
    noted = " ".join(plan.notes)
    for name, port in machine.USUAL_PORTS.items():
        assert taken[name] == f"127.0.0.1:{port}" or f"port {port} is taken" in noted


def test_a_taken_port_is_a_warning_unless_our_mesh_holds_it() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        found = machine.check_ports(None, ports={"memory": port})
        assert levels(found) == ["warning"] and f"{port} (memory) is taken" in said(found)
        ours = mesh(ProcessState("memory", "service", "healthy", address=f"127.0.0.1:{port}"))
        assert levels(machine.check_ports(ours, ports={"memory": port})) == ["ok"]
        named = [f"127.0.0.1:{port}"]
        assert levels(machine.check_ports(None, named, ports={"memory": port})) == ["ok"]
    assert levels(machine.check_ports(None, ports={"memory": port})) == ["ok"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when a process began")
@pytest.mark.parametrize(("set_by", "level"), [(0.0, "ok"), (3600.0, "warning"), (-3600.0, "warning")])
def test_a_clock_that_was_set_is_seen(set_by: float, level: str) -> None:
    process = this_process()
    found = clock.check_jump(mesh(replace(process, started=process.started - set_by)))
    assert levels(found) == [level]
    assert clock.check_jump(mesh(replace(process, birth="1"))) == []
    assert clock.check_jump(None) == []


def test_code_that_was_changed_since_a_process_began_is_seen(tmp_path: Path) -> None:
    process = this_process(started=1000.0)
    assert levels(running.check_versions(mesh(process), changed=999.0)) == ["ok"]
    found = running.check_versions(mesh(process), changed=1001.0)
    assert levels(found) == ["warning"] and "memory runs code from before" in said(found)
    (tmp_path / "deep").mkdir()
    for name, at in (("a.py", 5), ("deep/b.py", 9), ("c.txt", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert running.newest([tmp_path]) == 9.0
    assert running.newest([tmp_path / "none"]) == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says with what a process was started")
def test_a_process_of_another_installation_is_seen(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(os.path.realpath(sys.executable))
    with subprocess.Popen([other, "-c", "import time; time.sleep(60)"]) as process:
        try:
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
                time.sleep(0.01)  # the kernel fills it in a moment after the program began
            state = mesh(ProcessState("memory", "service", "healthy", process.pid, birth=birth_of(process.pid)))
            found = running.check_versions(state, changed=0.0)
        finally:
            process.kill()
    assert levels(found) == ["warning"] and "memory (" in said(found) and "another installation" in said(found)


def test_state_of_a_mesh_that_is_gone_is_told(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert levels(leftovers.check_state(home)) == ["ok"]
    home.state_file.write_text("{")
    assert "can't be read" in said(leftovers.check_state(home))
    write_state(home, mesh(home=tmp_path))
    assert "is of a mesh that is gone" in said(leftovers.check_state(home))
    write_state(home, replace(mesh(home=tmp_path), phase="failed", error="port 1 is taken\nmore"))
    assert "could not be started: port 1 is taken " in said(leftovers.check_state(home))
    write_state(home, mesh(this_process(), home=tmp_path))
    assert levels(leftovers.check_state(home)) == ["problem"]
