"""Alert rules, dashboard and collector fit the metrics that processes export."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from archon.telemetry import metrics
from archon.telemetry.metrics import METRICS
from tests.fixtures.prometheus import family_name, known_series, series_names
from tests.unit.deploy import manifests as base
from tests.unit.deploy.manifests import ROOT
from tests.unit.deploy.promql import InvalidExpression, check, parse
from tests.unit.deploy.test_kustomize import extract, overlay

ALERTS = [
    rule
    for group in yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "archon.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
COMPONENT = ROOT / "deploy" / "kustomize" / "components" / "observability"
KNOWN = known_series()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_selects_metrics_and_labels_that_exist(alert: dict[str, Any]) -> None:
    check(alert["expr"], KNOWN)
    assert set(alert) <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"Archon[A-Za-z]+", alert["alert"])
    assert re.fullmatch(r"\d+[sm]", alert.get("for", "1m"))
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert set(alert["annotations"]) == {"summary", "description"}
    groups = parse(alert["expr"]).groups
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(alert["annotations"].values())))
    assert named <= groups, "the alert has no other labels"


def test_alerts_have_names_of_their_own_and_cover_what_operators_expect() -> None:
    names = {alert["alert"] for alert in ALERTS}
    assert len(names) == len(ALERTS)
    selected = {name for alert in ALERTS for name, _ in parse(alert["expr"]).series}
    for metric in (
        metrics.TOOL_CALLS,
        metrics.CYCLE_DURATION,
        metrics.OUTBOX_AGE,
        metrics.OWNER,
        metrics.RUNS_ENDED,
        metrics.ROLE_INSTANCES,
        metrics.COMMIT_DURATION,
    ):
        assert selected & set(series_names(metric)), metric.name


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_selects_metrics_and_labels_that_exist(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        check(target["expr"], KNOWN)
        named = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        assert named <= (parse(target["expr"]).groups or {"instance"})
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["fieldConfig"]["defaults"]["unit"]


def test_the_dashboard_shows_every_metric_in_panels_of_their_own() -> None:
    shown = {name for panel in PANELS for target in panel["targets"] for name, _ in parse(target["expr"]).series}
    assert {family_name(metric) for metric in METRICS if not shown & set(series_names(metric))} == set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        covered = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24 and not covered & cells, panel["title"]
        cells |= covered


@pytest.mark.parametrize(
    "broken",
    [
        "sum(archon_runs",
        "archon_runs)",
        "archon_runs archon_runs",
        "archon_runs >",
        "sum by archon_state (archon_runs)",
        "sum by (archon_state archon_role) (archon_runs)",
        'archon_runs{archon_state "paused"}',
        "archon_runs{archon_state=paused}",
        "median(archon_runs)",
        "archon_runs & archon_runs",
        "no_such_metric > 1",
        'archon_runs{archon_role="designer"}',
        "sum by (archon_role) (archon_runs)",
        "archon_run_duration_seconds > 1",
        "1 > 2",
    ],
)
def test_a_broken_expression_is_found(broken: str) -> None:
    with pytest.raises(InvalidExpression):
        check(broken, KNOWN)


def with_collector(folder: Path) -> list[dict[str, Any]]:
    """Renders the overlay of the README with the component."""
    block = extract("components/observability").replace("../components", _relative(folder))
    return overlay(folder, block)


def _relative(folder: Path) -> str:
    return os.path.relpath(COMPONENT.parent, folder.resolve())


def containers(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the container of each workload by the workload's name."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]["containers"][0]
        for document in documents
        if document["kind"] in ("Deployment", "StatefulSet")
    }


def test_the_component_has_each_process_export_to_the_collector(tmp_path: Path) -> None:
    documents = with_collector(tmp_path)
    rendered_containers = containers(documents)
    [service] = [
        each for each in documents if each["kind"] == "Service" and each["metadata"]["name"] == "archon-collector"
    ]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    for name in [workload["metadata"]["name"] for workload in base.ours()]:
        variables = {each["name"]: each.get("value") for each in rendered_containers[name]["env"]}
        assert variables["OTEL_METRICS_EXPORTER"] == variables["OTEL_TRACES_EXPORTER"] == "otlp"
        assert variables["OTEL_EXPORTER_OTLP_ENDPOINT"] == f"http://archon-collector:{ports['otlp-http']}"
        assert float(str(variables["OTEL_METRIC_EXPORT_INTERVAL"])) < 30_000
    assert "env" not in rendered_containers["archon-etcd"] or "OTEL" not in str(
        rendered_containers["archon-etcd"]["env"]
    )


def test_the_collector_is_hardened_pinned_and_probed(tmp_path: Path) -> None:
    documents = with_collector(tmp_path)
    [workload] = [
        each for each in documents if each["metadata"]["name"] == "archon-collector" and each["kind"] == "Deployment"
    ]
    spec, inside = base.pod(workload), base.container(workload)
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+", inside["image"])
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inside["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    named = {port["name"]: port["containerPort"] for port in inside["ports"]}
    assert {inside[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} <= set(named)
    [service] = [
        each for each in documents if each["metadata"]["name"] == "archon-collector" and each["kind"] == "Service"
    ]
    assert service["spec"]["selector"].items() <= workload["spec"]["template"]["metadata"]["labels"].items()
    assert {named[port["targetPort"]] == port["port"] for port in service["spec"]["ports"]} == {True}
    assert {"name": "TRACES_ENDPOINT", "value": "tempo.example.com:4317"} in inside["env"]
    [mounted] = [volume["configMap"]["name"] for volume in spec["volumes"]]
    assert mounted in {each["metadata"]["name"] for each in documents if each["kind"] == "ConfigMap"}


def test_the_collectors_pipelines_name_what_is_configured() -> None:
    config = yaml.safe_load((COMPONENT / "collector-config.yaml").read_text())
    [deployment] = [
        each for each in yaml.safe_load_all((COMPONENT / "collector.yaml").read_text()) if each["kind"] == "Deployment"
    ]
    listened = {port["containerPort"] for port in base.container(deployment)["ports"]}
    endpoints = re.findall(r"endpoint: 0\.0\.0\.0:(\d+)", (COMPONENT / "collector-config.yaml").read_text())
    assert set(map(int, endpoints)) == listened
    assert set(config["service"]["pipelines"]) == {"traces", "metrics"}
    for pipeline in config["service"]["pipelines"].values():
        for kind, names in pipeline.items():
            assert set(names) <= set(config[kind])
        assert pipeline["processors"][0] == "memory_limiter"
    assert set(config["service"]["extensions"]) <= set(config["extensions"])
    variables = {variable["name"] for variable in base.container(deployment)["env"]}
    assert set(re.findall(r"\$\{env:(\w+)\}", str(config))) == variables
