"""A mesh in a network namespace whose loopback interface has ::1 alone, as on machines without IPv4."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COURSE = """
ip link set lo up && ip addr del 127.0.0.1/8 dev lo && ip -6 addr show dev lo | grep -q ::1 || exit 77
archon up --detach || exit 1
archon run --role requirements "The shop must sell books." -q
code=$?
archon status
archon down
exit $code
"""


def test_a_mesh_runs_on_ipv6_alone(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("only root can make a network namespace, with unshare and ip")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", COURSE],
        env={**os.environ, "PATH": path, "ARCHON_HOME": str(tmp_path / ".archon")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("this machine has no namespaces or no ::1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "R1. The shop must sell books." in done.stdout
    assert "[::1]:" in done.stdout
    assert "127.0.0.1" not in done.stdout + done.stderr
