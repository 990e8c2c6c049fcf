"""Checks of the wall clock."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import pytest

from archon_services.cli.checks import clock
from tests.unit.services.cli.checks.findings import levels
from tests.unit.services.cli.checks.meshes import mesh_of, this_process


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a process started")
@pytest.mark.parametrize(("set_by", "level"), [(0.0, "ok"), (3600.0, "warning"), (-3600.0, "warning")])
def test_jump_of_the_clock_is_a_warning(set_by: float, level: str) -> None:
    process = this_process()
    findings = clock.check_jump(mesh_of(replace(process, started=process.started - set_by)))
    assert levels(findings) == [level]
    assert clock.check_jump(mesh_of(replace(process, birth="1"))) == []
    assert clock.check_jump(None) == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long the machine was suspended")
def test_a_suspend_is_told_and_is_no_warning() -> None:
    process = this_process()
    awake = time.monotonic() - clock._age(process)
    state = mesh_of(replace(process, started_awake=awake))
    assert [finding.message for finding in clock.check_jump(state)] == ["no jump since the mesh started"]
    (finding,) = clock.check_jump(mesh_of(replace(process, started_awake=awake + 8 * 3600)))
    assert finding.message.startswith("the machine was suspended for 28,800 s")
    assert finding.level == "ok"
