"""Checks of the versions of running processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from archon_services.cli.checks import versions
from archon_services.local_mesh import ProcessState
from archon_services.local_mesh.state import start_ticks
from tests.fixtures.waiting import wait_until
from tests.unit.services.cli.checks.findings import levels, texts
from tests.unit.services.cli.checks.meshes import mesh_of, this_process


def test_process_older_than_its_code_is_a_warning(tmp_path: Path) -> None:
    process = this_process(started=1000.0)
    assert levels(versions.check_versions(mesh_of(process), changed=999.0)) == ["ok"]
    findings = versions.check_versions(mesh_of(process), changed=1001.0)
    assert levels(findings) == ["warning"] and "memory runs code that has been changed" in texts(findings)
    (tmp_path / "deep").mkdir()
    for name, modified in (("a.py", 5), ("deep/b.py", 9), ("c.txt", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (modified, modified))
    assert versions.last_change([tmp_path]) == 9.0
    assert versions.last_change([tmp_path / "none"]) == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the command of a process")
def test_process_of_another_installation_is_a_warning(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.symlink_to(os.path.realpath(sys.executable))
    with subprocess.Popen([other, "-c", "import time; time.sleep(60)"]) as process:
        try:
            wait_until(lambda: bool(Path(f"/proc/{process.pid}/cmdline").read_bytes()))  # shortly after the start
            ticks = start_ticks(process.pid)
            state = mesh_of(ProcessState("memory", "service", "healthy", process.pid, birth=ticks))
            findings = versions.check_versions(state, changed=0.0)
        finally:
            process.kill()
    assert levels(findings) == ["warning"]
    assert "memory (" in texts(findings) and "another installation" in texts(findings)
