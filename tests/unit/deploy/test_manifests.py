"""The manifests are valid, hardened and probed, and agree about names and ports."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from archon.agent import AgentSettings
from archon.agent.server import ACK_GRACE
from archon.agent.settings import DRAIN_GRACE
from archon_services.agents.settings import AgentServiceSettings
from archon_services.common.settings import ServiceSettings, load
from archon_services.common.variables import SERVICES, VARIABLES
from archon_services.gateway.front.guard import HEALTHY, READY
from archon_services.gateway.serving import STOP_GRACE
from archon_services.gateway.settings import GatewaySettings
from archon_services.local_mesh.options import DEFAULT_ROLES as ROLES
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.settings import RegistrySettings
from archon_services.registry.store.etcd_client import parse_members
from tests.unit.deploy import manifests as base
from tests.unit.deploy.manifests import BASE, Manifest, container, environment, name_of, pod, schema_fault

KUBERNETES = ("1.27", "1.37")
"""The oldest version that the README names, and the newest version with schemas."""

GATEWAY = "archon-gateway"
"""It speaks HTTP, and has a Service with an address: proxies and clients of HTTP know no instances."""

SETTINGS: dict[str, type[ServiceSettings]] = {
    "archon-registry": RegistrySettings,
    "archon-memory": MemorySettings,
    "archon-orchestrator": OrchestratorSettings,
    GATEWAY: GatewaySettings,
    **{f"archon-{role}": AgentServiceSettings for role in ROLES},
}

every_workload = pytest.mark.parametrize("workload", base.workloads(), ids=name_of)
each_of_ours = pytest.mark.parametrize("workload", base.ours(), ids=name_of)


def is_agent(workload: Manifest) -> bool:
    return workload["metadata"]["name"].removeprefix("archon-") in ROLES


def of(name: str) -> Manifest:
    [workload] = [workload for workload in base.workloads() if workload["metadata"]["name"] == name]
    return workload


def test_the_base_names_each_of_its_files_and_no_other() -> None:
    named = base.kustomization()["resources"]
    assert sorted(named) == sorted(path.name for path in BASE.iterdir() if path.name != "kustomization.yaml")


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("manifest", base.manifests(), ids=name_of)
def test_a_manifest_keeps_to_the_schema_of_its_kind(manifest: Manifest, version: str) -> None:
    assert schema_fault(manifest, version) == ""


def test_an_unknown_field_is_invalid() -> None:
    broken: Any = yaml.safe_load(yaml.safe_dump(of("archon-registry")))
    broken["spec"]["template"]["spec"]["enableServiceLink"] = False
    assert "'enableServiceLink' was unexpected" in schema_fault(broken, KUBERNETES[-1])


def test_the_base_has_every_workload() -> None:
    replicas = {name_of(workload): workload["spec"]["replicas"] for workload in base.workloads()}
    assert replicas == {
        "StatefulSet/archon-etcd": 3,
        "Deployment/archon-registry": 2,
        "StatefulSet/archon-memory": 1,
        "StatefulSet/archon-orchestrator": 1,
        f"Deployment/{GATEWAY}": 2,
        **{f"Deployment/archon-{role}": 2 for role in ROLES},
    }


@every_workload
def test_pods_are_hardened(workload: Manifest) -> None:
    spec, inside = pod(workload), container(workload)
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] > 1000
    assert spec["securityContext"]["runAsGroup"] > 1000
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert inside["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(inside["resources"]["requests"]) == {"cpu", "memory"}
    assert set(inside["resources"]["limits"]) == {"memory"}


def test_the_namespace_admits_restricted_pods_only() -> None:
    [namespace] = [manifest for manifest in base.manifests() if manifest["kind"] == "Namespace"]
    assert namespace["metadata"]["name"] == base.kustomization()["namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@every_workload
def test_each_container_is_probed_at_its_own_port(workload: Manifest) -> None:
    inside = container(workload)
    ports = {port["name"]: port["containerPort"] for port in inside["ports"]}
    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = inside[kind]
        if "grpc" in probe:
            assert probe["grpc"] == {"port": int(environment(workload)["ARCHON_PORT"])}
        else:
            name = workload["metadata"]["name"]
            assert name in ("archon-etcd", GATEWAY), "Archon's other services are probed over gRPC"
            assert probe["httpGet"]["port"] in ports
            if name == GATEWAY:
                assert probe["httpGet"]["path"] == (READY if kind == "readinessProbe" else HEALTHY)


@each_of_ours
def test_ports_agree(workload: Manifest) -> None:
    port = int(environment(workload)["ARCHON_PORT"])
    protocol = "http" if workload["metadata"]["name"] == GATEWAY else "grpc"
    assert container(workload)["ports"] == [{"name": protocol, "containerPort": port}]
    service = base.services().get(workload["metadata"]["name"])
    assert (service is None) == is_agent(workload)
    if service is not None:
        [served] = service["spec"]["ports"]
        assert (served["port"], served["targetPort"]) == (port, protocol)


def test_the_ports_of_etcd_agree() -> None:
    etcd = of("archon-etcd")
    ports = {port["name"]: port["containerPort"] for port in container(etcd)["ports"]}
    listened = re.findall(r"--listen-\w+-urls=http://0\.0\.0\.0:(\d+)", " ".join(container(etcd)["args"]))
    assert sorted(map(int, listened)) == sorted(ports.values())
    for port in base.services()["archon-etcd"]["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]


def test_the_members_of_etcd_know_each_other() -> None:
    etcd = of("archon-etcd")
    names = [f"archon-etcd-{number}" for number in range(etcd["spec"]["replicas"])]
    service = etcd["spec"]["serviceName"]
    [cluster] = [argument for argument in container(etcd)["args"] if argument.startswith("--initial-cluster=")]
    assert cluster.partition("=")[2].split(",") == [f"{name}=http://{name}.{service}:2380" for name in names]
    assert base.services()[service]["spec"]["publishNotReadyAddresses"] is True
    assert parse_members(base.literals()["etcd"]) == [f"{name}.{service}:2379" for name in names]


@pytest.mark.parametrize("service", base.services().values(), ids=name_of)
def test_a_service_finds_the_pods_of_its_name_one_by_one(service: Manifest) -> None:
    has_address = service["metadata"]["name"] == GATEWAY
    assert service["spec"].get("clusterIP") == (None if has_address else "None")
    labels = of(service["metadata"]["name"])["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


@each_of_ours
def test_variables_are_settings_of_the_service_and_are_read(
    workload: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = SETTINGS[workload["metadata"]["name"]]
    variables = environment(workload)
    of_every_process = {variable.name for variable in VARIABLES if SERVICES in variable.readers}
    assert set(variables) <= {f"ARCHON_{name.upper()}" for name in settings.model_fields} | of_every_process
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    taken = load(settings, [])
    assert (taken.host, str(taken.port)) == ("0.0.0.0", variables["ARCHON_PORT"])


@each_of_ours
def test_every_service_is_called_by_its_name_and_port(workload: Manifest) -> None:
    called = ("registry", "memory", "orchestrator")
    for variable, name in ((f"ARCHON_{each.upper()}", f"archon-{each}") for each in called):
        if (address := environment(workload).get(variable)) is not None:
            assert address == f"{name}:{base.services()[name]['spec']['ports'][0]['port']}"


@each_of_ours
def test_agents_advertise_their_pod_and_have_time_to_drain(workload: Manifest) -> None:
    if not is_agent(workload):
        return
    assert environment(workload)["ARCHON_MEMORY"] == environment(of("archon-orchestrator"))["ARCHON_MEMORY"]
    assert environment(workload)["ARCHON_ADVERTISE"] == "<status.podIP>"
    assert AgentSettings(host="0.0.0.0", advertise="10.1.2.3").advertised(7110) == "10.1.2.3:7110"
    assert pod(workload)["terminationGracePeriodSeconds"] > DRAIN_GRACE + ACK_GRACE + 5


def test_the_gateway_drains_for_longer_than_a_probe_takes_and_ends_in_time() -> None:
    drain = float(environment(of(GATEWAY))["ARCHON_HTTP_DRAIN_SECONDS"])
    probe = container(of(GATEWAY))["readinessProbe"]
    assert drain >= probe["periodSeconds"] + probe["timeoutSeconds"]
    assert pod(of(GATEWAY))["terminationGracePeriodSeconds"] > drain + 2 * STOP_GRACE + 5


@each_of_ours
def test_data_is_stored_in_a_volume_of_a_single_replica(workload: Manifest) -> None:
    variables = environment(workload)
    files = [variables[name] for name in ("ARCHON_DB", "ARCHON_JOURNAL") if name in variables]
    assert bool(files) == (workload["kind"] == "StatefulSet")
    if files:
        mounts = {mount["name"]: mount["mountPath"] for mount in container(workload)["volumeMounts"]}
        [claim] = workload["spec"]["volumeClaimTemplates"]
        assert files[0].startswith(mounts[claim["metadata"]["name"]] + "/")
        assert workload["spec"]["replicas"] == 1
        assert pod(workload)["securityContext"]["fsGroup"] == pod(workload)["securityContext"]["runAsGroup"]
