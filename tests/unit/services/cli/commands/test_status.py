"""`archon status` shows the endpoints of metrics, if there are any."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from archon_services.cli.commands.status import _print
from archon_services.local_mesh import MeshState
from archon_services.local_mesh.state import ProcessState

REGISTRY = ProcessState("registry", "service", "healthy", pid=1, address="127.0.0.1:7101")
MESH = MeshState("ready", 1, "/home/mesh", (ProcessState("etcd", "etcd", "healthy", pid=2), REGISTRY))


def test_status_has_no_column_for_metrics_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    _print(MESH, as_json=False)
    assert "metrics" not in capsys.readouterr().out


def test_status_shows_where_each_process_serves_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    measured = replace(MESH, processes=(MESH.processes[0], replace(REGISTRY, metrics="127.0.0.1:15001")))
    _print(measured, as_json=False)
    head, etcd, registry = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("Archon")][:3]
    assert head.split()[-1] == "metrics"
    assert (etcd.split()[-1], registry.split()[-1]) == ("-", "127.0.0.1:15001")
    _print(measured, as_json=True)
    assert json.loads(capsys.readouterr().out)["processes"][1]["metrics"] == "127.0.0.1:15001"
