"""The network policies let through what the architecture has, and nothing else."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from archon_services.local_mesh.options import DEFAULT_ROLES
from tests.unit.deploy.kustomize_output import COMPONENTS, of_kind, render, templates
from tests.unit.deploy.manifests import Manifest, documents_of
from tests.unit.deploy.network import Pod, allowed

AGENTS = tuple(f"archon-{role}" for role in DEFAULT_ROLES)
SERVERS = ("archon-orchestrator", "archon-memory", "archon-registry")
GATEWAY = "archon-gateway"
DATABASE = Pod("postgresql", {"cnpg.io/cluster": "archon-postgresql"})
OPERATOR = Pod("operator", {}, "cnpg-system")
CLIENT = Pod("client", {"archon.dev/client": "true"})
CLIENTS = Pod("clients", {}, "shop", {"archon.dev/clients": "true"})
PROMETHEUS = Pod("prometheus", {}, "monitoring", {"archon.dev/monitoring": "true"})
PROXY = Pod("proxy", {}, "ingress-nginx", {"archon.dev/ingress": "true"})
STRANGER = Pod("stranger", {"app.kubernetes.io/name": "archon-registry"}, "other")
GUEST = Pod("guest", {})
"""A pod in the namespace of the mesh that is no part of it."""

DNS = Pod("dns", {"k8s-app": "kube-dns"}, "kube-system")

EXPECTED = {
    *(((source, "archon-registry", 7101)) for source in ("archon-orchestrator", "archon-memory", *AGENTS)),
    *(((source, "archon-memory", 7102)) for source in ("archon-orchestrator", *AGENTS)),
    *(((source, agent, 7110)) for source in ("archon-orchestrator", *AGENTS) for agent in AGENTS),
    ("archon-orchestrator", "archon-orchestrator", 7100),
    ("archon-registry", "archon-etcd", 2379),
    ("archon-backup", "archon-etcd", 2379),
    ("archon-etcd", "archon-etcd", 2380),
    *(((source, "postgresql", 5432)) for source in ("archon-orchestrator", "archon-memory", "archon-backup")),
    *((("postgresql", "postgresql", port)) for port in (5432, 8000)),
    ("operator", "postgresql", 8000),
    *((("archon-memory", "archon-weaviate", port)) for port in (8080, 50051)),
    *(((source, "archon-collector", 4318)) for source in (*SERVERS, GATEWAY, *AGENTS)),
    *(((source, GATEWAY, 8080)) for source in ("proxy", "client", "clients")),
    *(
        ((GATEWAY, f"archon-{target}", port))
        for target, port in (("orchestrator", 7100), ("registry", 7101), ("memory", 7102))
    ),
    ("prometheus", "archon-collector", 8889),
    *(
        (client, f"archon-{service}", port)
        for client in ("client", "clients")
        for service, port in (("orchestrator", 7100), ("registry", 7101), ("memory", 7102))
    ),
}
"""Source, target and port of every connection of the mesh."""


@cache
def documents() -> list[Manifest]:
    return render("overlays/production", "weaviate")


@cache
def policies() -> list[Manifest]:
    return list(of_kind(documents(), "NetworkPolicy").values())


@cache
def pods() -> list[Pod]:
    own = [Pod(name, template["metadata"]["labels"]) for name, template in templates(documents()).items()]
    return [*own, DATABASE, OPERATOR, CLIENT, CLIENTS, PROMETHEUS, PROXY, STRANGER, GUEST]


@cache
def ports() -> set[int]:
    listened = {
        port["containerPort"]
        for template in templates(documents()).values()
        for container in template["spec"]["containers"]
        for port in container.get("ports", [])
    }
    return listened | {5432, 8000, 443}


@cache
def reached_without(name: str = "") -> set[tuple[str, str, int]]:
    """Returns the connections that the policies let through, without one of them."""
    return reached([policy for policy in policies() if policy["metadata"]["name"] != name])


def reached(rules: list[Manifest]) -> set[tuple[str, str, int]]:
    """Returns what reaches what, as far as it is from or to the namespace of the mesh."""
    return {
        (source.name, target.name, port)
        for source, target in product(pods(), pods())
        if "archon" in (source.namespace, target.namespace)
        for port in ports()
        if allowed(rules, source, target, port)
    }


def outgoing() -> set[tuple[str, str, int]]:
    """Returns what is let out to everywhere, and refused only by the policies of others. Whether pods in other
    namespaces have policies is not known."""
    others = {"operator", "clients", "prometheus", "proxy", "stranger"}
    return {
        *((source, target, 5432) for source in (*SERVERS[:2], "archon-backup") for target in others),
        *(("postgresql", target, 443) for target in others),
        *(("archon-collector", target, 4317) for target in others),
    }


def test_exactly_the_connections_of_the_mesh_are_let_through() -> None:
    assert reached_without() == EXPECTED | outgoing()


def test_without_policies_everything_is_let_through() -> None:
    assert reached([]) > EXPECTED


NAMES = [
    document["metadata"]["name"]
    for path in (COMPONENTS / "network-policies").glob("*.yaml")
    for document in documents_of(path.read_text())
    if document["kind"] == "NetworkPolicy"
]


@pytest.mark.parametrize("name", [name for name in sorted(NAMES) if name != "archon-dns"])
def test_each_policy_is_needed(name: str) -> None:
    assert reached_without(name) != reached_without()


@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_names_are_resolved_by_the_servers_of_the_cluster(protocol: str) -> None:
    for pod in pods():
        if pod.namespace == "archon":
            assert allowed(policies(), pod, DNS, 53, protocol)
            assert allowed(policies(), pod, "169.254.20.10", 53, protocol)
            assert not allowed(policies(), pod, "8.8.8.8", 53, protocol)
            assert not allowed(policies(), pod, STRANGER, 53, protocol)


INTERNET = ("203.0.113.5", "2001:db8::5")
CLOSED = ("10.1.2.3", "172.20.0.1", "192.168.1.1", "100.100.1.1", "169.254.169.254", "fd00:ec2::254", "fe80::1")
"""Pods, private networks, and the metadata services of clouds."""


def test_agents_and_the_gateway_reach_the_internet_alone() -> None:
    for pod in pods():
        if pod.name in (*AGENTS, GATEWAY):
            assert all(allowed(policies(), pod, address, 443) for address in INTERNET)
            assert not any(allowed(policies(), pod, address, 443) for address in CLOSED)
            assert not any(allowed(policies(), pod, address, 80) for address in INTERNET)


def test_services_reach_a_database_and_nothing_else_outside() -> None:
    inside = {pod.name: pod for pod in pods() if pod.namespace == "archon"}
    others = {name: pod for name, pod in inside.items() if name not in (*AGENTS, GATEWAY)}
    out = {
        (name, port)
        for name, pod in others.items()
        for port in (22, 80, 443, 2379, 4317, 5432, 6443, 7110)
        if any(allowed(policies(), pod, address, port) for address in (*INTERNET, *CLOSED))
    }
    databases = {(name, 5432) for name in ("archon-orchestrator", "archon-memory", "archon-backup")}
    assert out == databases | {("archon-collector", 4317), ("postgresql", 443), ("postgresql", 6443)}


def test_services_reach_an_openid_provider_on_the_internet_alone() -> None:
    rules = list(of_kind(render("overlays/production", "openid"), "NetworkPolicy").values())
    for pod in pods():
        if pod.name in SERVERS:
            assert all(allowed(rules, pod, address, 443) for address in INTERNET)
            assert not any(allowed(rules, pod, address, 443) for address in CLOSED)


def test_nothing_outside_of_the_cluster_comes_in() -> None:
    assert not any(
        allowed(policies(), address, pod, port)
        for address in (*INTERNET, *CLOSED)
        for pod in pods()
        for port in ports()
        if pod.namespace == "archon"
    )
