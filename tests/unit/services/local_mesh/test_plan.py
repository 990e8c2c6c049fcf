"""The plan of a mesh: environments of its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon_services.local_mesh import Home, MeshOptions, make_plan


def test_agents_and_orchestrator_use_the_same_memory_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_MEMORY", "elsewhere:1")  # in the user's shell: this mesh runs its own
    plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True))
    [memory] = [spec.address for spec in plan.specs if spec.name == "memory"]
    addresses = {spec.name: spec.environment.get("ARCHON_MEMORY") for spec in plan.specs if spec.kind == "agent"}
    assert addresses and set(addresses.values()) == {memory}
    [orchestrator] = [spec for spec in plan.specs if spec.name == "orchestrator"]
    assert orchestrator.environment["ARCHON_MEMORY"] == memory


@pytest.mark.parametrize(("journal", "durable"), [("", True), ("memory", False), ("postgresql://host/db", True)])
def test_runs_are_durable_unless_the_journal_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: str, durable: bool
) -> None:
    monkeypatch.setenv("ARCHON_JOURNAL", journal)
    assert make_plan(Home(tmp_path), MeshOptions(free_ports=True)).durable is durable
