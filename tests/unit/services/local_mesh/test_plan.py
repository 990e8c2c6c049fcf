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


def test_each_process_serves_its_metrics_on_a_port_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "otlp,prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "9464")  # in the user's shell: one process could use it
    plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True))
    served = [spec for spec in plan.specs if spec.kind != "etcd"]
    ports = {spec.environment["OTEL_EXPORTER_PROMETHEUS_PORT"] for spec in served}
    assert len(ports) == len(served) > 5
    assert {spec.metrics for spec in served} == {f"127.0.0.1:{port}" for port in ports}
    assert plan.instance("designer", 2).metrics not in {spec.metrics for spec in plan.specs}


def test_no_process_has_a_metrics_endpoint_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_METRICS_EXPORTER", raising=False)
    plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True))
    assert {spec.metrics for spec in plan.specs} == {""}


def test_the_role_of_workflows_is_started_only_when_it_is_needed(tmp_path: Path) -> None:
    plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True))
    assert "workflow" not in {spec.role for spec in plan.specs}
    assert plan.instance("workflow", 1).command[-1] == "workflow"
    asked = make_plan(Home(tmp_path), MeshOptions(replicas={"workflow": 2}, free_ports=True))
    assert [spec.name for spec in asked.specs if spec.role == "workflow"] == ["workflow-1", "workflow-2"]
    only = make_plan(Home(tmp_path), MeshOptions(only=("workflow",), free_ports=True))
    assert {spec.role for spec in only.specs} == {"workflow"}


def test_the_role_of_workflows_is_started_again_beside_the_orchestrator_whose_runs_may_wait_for_it(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    home.workflow_role.touch()
    for options, started in (
        (MeshOptions(free_ports=True), True),
        (MeshOptions(only=("orchestrator", "registry"), free_ports=True), True),
        (MeshOptions(only=("designer",), free_ports=True), False),
        (MeshOptions(replicas={"workflow": 0}, free_ports=True), False),
    ):
        assert ("workflow" in {spec.role for spec in make_plan(home, options).specs}) is started


def test_the_gateway_tries_prompts_with_the_model_of_the_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARCHON_TRIAL_MODELS", raising=False)
    monkeypatch.setenv("ARCHON_MODEL", "openai/gpt-5-mini")

    def models(**options: str) -> str:
        plan = make_plan(Home(tmp_path), MeshOptions(free_ports=True, **options))  # type: ignore[arg-type]
        [gateway] = [spec for spec in plan.specs if spec.name == "gateway"]
        return gateway.environment["ARCHON_TRIAL_MODELS"]

    assert (models(), models(model="offline")) == ("openai/gpt-5-mini", "offline")
    monkeypatch.setenv("ARCHON_TRIAL_MODELS", "openai/gpt-5-nano")
    assert models() == "openai/gpt-5-nano", "a choice of the user's own counts"
