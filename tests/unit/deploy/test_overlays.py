"""Overlays and components, as kustomize renders them: valid, and fit for production. Each rule notices its break."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from archon.agent import AgentSettings
from archon_services.gateway.watches.batches import SILENCE
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.store.etcd_client import parse_members
from tests.fixtures.prometheus import known_series
from tests.unit.deploy.kustomize_output import (
    COMPONENTS,
    KUSTOMIZE,
    build,
    check,
    config,
    of_kind,
    render,
    templates,
    variables,
)
from tests.unit.deploy.manifests import Manifest
from tests.unit.deploy.promql import check as check_expression
from tests.unit.deploy.rules import AGENTS, EVERYWHERE, IN_PRODUCTION, OURS, faults

PRODUCTION = "overlays/production"
ADDED = ("cloudnative-pg", "weaviate", "autoscaling", "tls-authority")
HTTP = ("openid", "ingress-nginx", "gateway-api")
"""Components that are added on top of production."""

OF_BASE = (
    ("observability",),
    ("network-policies",),
    ("disruption-budgets",),
    ("audit",),
    ("hooks",),
    ("http", "tls"),
    ("weaviate",),
    ("autoscaling",),
    ("tls",),
    ("weaviate", "tls-authority", "tls"),
    ("postgresql",),
    ("postgresql", "cloudnative-pg"),
    ("postgresql", "backups"),
    ("postgresql", "backups", "cloudnative-pg", "observability", "tls"),
)
"""Components on top of the base, alone or with those that they need, in the order of the README."""

together = [added for number in range(len(ADDED) + 1) for added in combinations(ADDED, number)]


@pytest.mark.parametrize("added", together, ids="+".join)
def test_production_keeps_its_rules_with_every_component(added: tuple[str, ...]) -> None:
    assert faults(render(PRODUCTION, *added), IN_PRODUCTION) == []


@pytest.mark.parametrize("components", OF_BASE, ids="+".join)
def test_the_base_keeps_its_rules_with_components(components: tuple[str, ...]) -> None:
    documents = render("base", *components)
    assert faults(documents, EVERYWHERE) == []
    assert len({(each["kind"], each["metadata"]["name"]) for each in documents}) == len(documents)
    assert {each["metadata"].get("namespace", "archon") for each in documents} == {"archon"}


@pytest.mark.parametrize("added", HTTP)
def test_production_keeps_its_rules_with_people_from_outside(added: str) -> None:
    documents = render(PRODUCTION, added)
    assert faults(documents, IN_PRODUCTION) == []
    assert len({(each["kind"], each["metadata"]["name"]) for each in documents}) == len(documents)


def test_an_entry_point_leads_to_the_gateway_and_verifies_it() -> None:
    certificate = of_kind(render(PRODUCTION), "Certificate")["archon-gateway"]["spec"]
    service = of_kind(render(PRODUCTION), "Service")["archon-gateway"]
    [ingress] = of_kind(render(PRODUCTION, "ingress-nginx"), "Ingress").values()
    annotations = {key.rpartition("/")[2]: value for key, value in ingress["metadata"]["annotations"].items()}
    assert annotations["proxy-ssl-name"] in certificate["dnsNames"]
    assert annotations["proxy-ssl-secret"] == f"archon/{certificate['secretName']}"
    assert (annotations["proxy-buffering"], annotations["backend-protocol"]) == ("off", "HTTPS")
    assert int(annotations["proxy-read-timeout"]) > 4 * SILENCE
    [rule] = ingress["spec"]["rules"]
    [path] = rule["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": "archon-gateway",
        "port": {"name": service["spec"]["ports"][0]["name"]},
    }
    documents = render(PRODUCTION, "gateway-api")
    [route] = of_kind(documents, "HTTPRoute").values()
    [backend] = route["spec"]["rules"][0]["backendRefs"]
    assert (backend["name"], backend["port"]) == ("archon-gateway", service["spec"]["ports"][0]["port"])
    [policy] = of_kind(documents, "BackendTLSPolicy").values()
    assert policy["spec"]["validation"]["hostname"] in certificate["dnsNames"]
    assert service["spec"]["ports"][0]["appProtocol"] == "https"
    hosts = {rule["host"], *route["spec"]["hostnames"], config(documents)["public-url"].removeprefix("https://")}
    assert len(hosts) == 1


def test_every_component_is_tried() -> None:
    tried = {name for components in (*OF_BASE, ADDED, HTTP) for name in components}
    assert {path.name for path in COMPONENTS.iterdir()} == tried


def test_the_overlay_for_development_is_the_base() -> None:
    assert render("overlays/dev") == render("base")


def test_the_overlay_of_four_languages_keeps_the_rules_and_has_an_image_of_each() -> None:
    documents = render("overlays/polyglot")
    assert faults(documents, EVERYWHERE) == []
    images = {first(documents, name)["image"] for name in templates(documents)}
    languages = ("python", "go", "typescript", "java")
    assert {f"archon-agent-{language}:0.1.0" for language in languages} <= images
    assert not {"archon-requirements:0.1.0", "archon-designer:0.1.0", "archon-implementer:0.1.0"} & images


def pod(documents: list[Manifest], name: str) -> Any:
    return templates(documents)[name]["spec"]


def first(documents: list[Manifest], name: str) -> Any:
    return pod(documents, name)["containers"][0]


def remove_variable(documents: list[Manifest], name: str, variable: str) -> None:
    container = first(documents, name)
    container["env"] = [entry for entry in container["env"] if entry["name"] != variable]


def add_variable(documents: list[Manifest], name: str, variable: str, value: str) -> None:
    remove_variable(documents, name, variable)
    first(documents, name)["env"].append({"name": variable, "value": value})


def remove(documents: list[Manifest], kind: str, name: str) -> None:
    documents[:] = [each for each in documents if (each["kind"], each["metadata"]["name"]) != (kind, name)]


def claimed(documents: list[Manifest]) -> None:
    pod(documents, "archon-orchestrator")["volumes"].append(
        {"name": "data", "persistentVolumeClaim": {"claimName": "journal"}}
    )


def hook_volume(documents: list[Manifest]) -> Any:
    return next(each for each in pod(documents, "archon-orchestrator")["volumes"] if each["name"] == "hooks")


def hook_mount(documents: list[Manifest]) -> Any:
    return next(each for each in first(documents, "archon-orchestrator")["volumeMounts"] if each["name"] == "hooks")


Break = Callable[[list[Manifest]], Any]
DESIGNER, ORCHESTRATOR = "archon-designer", "archon-orchestrator"
BREAKS: dict[str, tuple[str, Break]] = {
    "namespace": (
        "the namespace admits other pods",
        lambda d: of_kind(d, "Namespace")["archon"]["metadata"]["labels"].clear(),
    ),
    "root": (f"{DESIGNER} may run as root", lambda d: pod(d, DESIGNER)["securityContext"].pop("runAsNonRoot")),
    "seccomp": (
        f"{DESIGNER} has no seccomp profile",
        lambda d: pod(d, DESIGNER)["securityContext"].pop("seccompProfile"),
    ),
    "capabilities": (
        "archon-backup keeps privileges",
        lambda d: pod(d, "archon-backup")["initContainers"][0]["securityContext"].pop("capabilities"),
    ),
    "read-only": (
        f"{DESIGNER} can write to its root",
        lambda d: first(d, DESIGNER)["securityContext"].pop("readOnlyRootFilesystem"),
    ),
    "account": (f"{DESIGNER} has no account of its own", lambda d: remove(d, "ServiceAccount", DESIGNER)),
    "account's token": (
        f"the account {DESIGNER} gives its token to pods",
        lambda d: of_kind(d, "ServiceAccount")[DESIGNER].pop("automountServiceAccountToken"),
    ),
    "token": (f"{DESIGNER} mounts a token", lambda d: pod(d, DESIGNER).pop("automountServiceAccountToken")),
    "links": (f"{DESIGNER} gets variables of Services", lambda d: pod(d, DESIGNER).pop("enableServiceLinks")),
    "requests": (
        f"{DESIGNER} requests too little",
        lambda d: first(d, DESIGNER)["resources"]["requests"].pop("cpu"),
    ),
    "CPU limit": (
        f"{DESIGNER} has other limits than of memory",
        lambda d: first(d, DESIGNER)["resources"]["limits"].update(cpu="1"),
    ),
    "replicas": (
        f"{DESIGNER}: replicas are set by both or none",
        lambda d: of_kind(d, "Deployment")[DESIGNER]["spec"].update(replicas=2),
    ),
    "spread": (f"{DESIGNER} is not spread", lambda d: pod(d, DESIGNER).pop("topologySpreadConstraints")),
    "spread of others": (
        f"{ORCHESTRATOR} is spread by labels of others",
        lambda d: pod(d, ORCHESTRATOR)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"].update(
            {"app.kubernetes.io/name": DESIGNER}
        ),
    ),
    "no budget": (f"{DESIGNER} has 0 budgets", lambda d: remove(d, "PodDisruptionBudget", DESIGNER)),
    "budget of an only pod": (
        "archon-memory has 1 budgets",
        lambda d: of_kind(d, "PodDisruptionBudget")[DESIGNER]["spec"]["selector"].update(
            matchLabels={"app.kubernetes.io/name": "archon-memory"}
        ),
    ),
    "budget of none": (
        f"the budget of {DESIGNER} lets not one go",
        lambda d: of_kind(d, "PodDisruptionBudget")[DESIGNER]["spec"].update(maxUnavailable=0),
    ),
    "preStop": (
        f"{DESIGNER} delays SIGTERM",
        lambda d: first(d, DESIGNER).update(lifecycle={"preStop": {"sleep": {"seconds": 5}}}),
    ),
    "drain": (
        f"{DESIGNER} is killed before it has drained",
        lambda d: add_variable(d, DESIGNER, "ARCHON_DRAIN", "60"),
    ),
    "volume": (f"{ORCHESTRATOR}: two pods want one volume", claimed),
    "SQLite": (
        f"{ORCHESTRATOR}: several processes on one file",
        lambda d: add_variable(d, ORCHESTRATOR, "ARCHON_JOURNAL", "/tmp/journal.db"),
    ),
    "scratch": (f"{DESIGNER} writes to its root", lambda d: first(d, DESIGNER)["volumeMounts"].pop(0)),
    "address": (
        f"{ORCHESTRATOR} does not say its address",
        lambda d: remove_variable(d, ORCHESTRATOR, "ARCHON_ADVERTISE"),
    ),
    "secret": (
        f"{DESIGNER} names the secret {DESIGNER}-tls, which does not exist",
        lambda d: remove(d, "Certificate", DESIGNER),
    ),
    "selector": (
        f"{DESIGNER} selects other pods",
        lambda d: of_kind(d, "Deployment")[DESIGNER]["spec"]["selector"].update(
            matchLabels={"app.kubernetes.io/component": "agent"}
        ),
    ),
    "clear text": (
        f"{DESIGNER} speaks in clear text",
        lambda d: add_variable(d, DESIGNER, "ARCHON_INSECURE", "1"),
    ),
    "certificate of another": (
        f"{DESIGNER} has the certificate of another",
        lambda d: pod(d, DESIGNER)["volumes"][0]["secret"].update(secretName="archon-planner-tls"),
    ),
    "mode of the key": (
        f"the key of {DESIGNER} is open",
        lambda d: pod(d, DESIGNER)["volumes"][0]["secret"].pop("defaultMode"),
    ),
    "probe": (
        f"{DESIGNER} is probed where it needs a certificate",
        lambda d: first(d, DESIGNER)["livenessProbe"]["grpc"].update(port=7110),
    ),
    "etcd": (
        "etcd speaks in clear text",
        lambda d: first(d, "archon-etcd")["args"].remove("--client-cert-auth=true"),
    ),
    "sessions": (
        "each replica of archon-gateway has sessions of its own",
        lambda d: add_variable(d, "archon-gateway", "ARCHON_SESSION_KEY", "/tmp/archon/session.key"),
    ),
    "tokens": (
        "archon-memory does not verify the tokens that archon-gateway does",
        lambda d: remove_variable(d, "archon-memory", "ARCHON_KEYS"),
    ),
    "http": (
        "archon-gateway speaks in clear text",
        lambda d: remove_variable(d, "archon-gateway", "ARCHON_HTTP_TLS"),
    ),
    "keys of hooks": (
        "each orchestrator has keys of hooks of its own",
        lambda d: add_variable(d, ORCHESTRATOR, "ARCHON_HOOK_KEY", "/tmp/archon/hooks.key"),
    ),
    "mode of the keys of hooks": (
        "the keys of hooks are open",
        lambda d: hook_volume(d)["secret"].pop("defaultMode"),
    ),
    "file of the keys of hooks": (
        "keys of hooks that change do not reach the orchestrators",
        lambda d: hook_mount(d).update(subPath="hooks.key"),
    ),
    "no keys of hooks": (
        "the orchestrators do not start without keys of hooks",
        lambda d: hook_volume(d)["secret"].pop("optional"),
    ),
    "quorum": (
        "a machine holds the quorum of etcd",
        lambda d: pod(d, "archon-etcd")["topologySpreadConstraints"][0].update(whenUnsatisfiable="ScheduleAnyway"),
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_rule_notices_its_break(name: str) -> None:
    expected, damage = BREAKS[name]
    documents = render(PRODUCTION, "autoscaling")
    damage(documents)
    assert expected in faults(documents, IN_PRODUCTION)


@pytest.mark.parametrize("kind", ["Certificate", "Issuer", "Cluster", "ScaledObject", "NetworkPolicy", "HTTPRoute"])
def test_an_unknown_field_of_any_kind_is_noticed(kind: str) -> None:
    document = next(iter(of_kind(render(PRODUCTION, *ADDED, "gateway-api"), kind).values()))
    check(document)
    document["spec"]["colour"] = "blue"
    with pytest.raises((jsonschema.ValidationError, Exception), match="colour"):
        check(document)


def test_orchestrators_of_production_share_postgresql() -> None:
    documents = render(PRODUCTION)
    orchestrator = of_kind(documents, "Deployment")[ORCHESTRATOR]
    assert ORCHESTRATOR not in of_kind(documents, "StatefulSet")
    assert orchestrator["spec"]["replicas"] == 2
    assert "serviceName" not in orchestrator["spec"]
    [memory] = templates(documents)["archon-memory"]["spec"]["containers"]
    secret = {"secretKeyRef": {"name": "archon-postgresql", "key": "dsn"}}
    assert variables(first(documents, ORCHESTRATOR))["ARCHON_JOURNAL"] == secret
    assert variables(memory)["ARCHON_DB"] == secret
    assert variables(memory)["ARCHON_LONG_TERM"] == "sqlite"


def test_cloudnative_pg_replaces_every_address_and_is_verified() -> None:
    documents = render(PRODUCTION, "cloudnative-pg")
    assert "'archon-postgresql'" not in str([templates(documents)[name] for name in templates(documents)])
    clients = ("archon-orchestrator", "archon-memory", "archon-backup")
    for container in (first(documents, name) for name in clients):
        values = variables(container)
        assert {"secretKeyRef": {"name": "archon-postgresql-app", "key": "uri"}} in values.values()
        assert values["PGSSLMODE"] == "verify-full"
        assert values["PGSSLROOTCERT"] in {
            f"{mount['mountPath']}/ca.crt" for mount in container["volumeMounts"] if mount["name"] == "postgresql"
        }
    [cluster] = of_kind(documents, "Cluster").values()
    assert cluster["spec"]["instances"] == 3
    assert cluster["spec"]["postgresql"]["synchronous"]["number"] == 1


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_a_scaler_asks_for_metrics_that_exist(name: str) -> None:
    scaled = of_kind(render("base", "autoscaling"), "ScaledObject")[name]["spec"]
    [trigger] = scaled["triggers"]
    query = trigger["metadata"]["query"]
    check_expression(query, known_series())
    assert query.count(f'archon_role="{name.removeprefix("archon-")}"') == 3
    assert scaled["scaleTargetRef"]["name"] == name
    assert scaled["minReplicaCount"] == scaled["fallback"]["replicas"] == 2


def test_weaviate_is_the_long_term_memory() -> None:
    for documents in (render("base", "weaviate"), render(PRODUCTION, "weaviate")):
        [memory] = templates(documents)["archon-memory"]["spec"]["containers"]
        service = of_kind(documents, "Service")["archon-weaviate"]
        assert variables(memory)["ARCHON_LONG_TERM"] == "weaviate://archon-weaviate:8080"
        assert {port["port"] for port in service["spec"]["ports"]} == {8080, 50051}


def test_a_pod_with_ipv6_advertises_brackets() -> None:
    assert AgentSettings(host="0.0.0.0", advertise="fd00::a:1").advertised(7110) == "[fd00::a:1]:7110"
    assert OrchestratorSettings(advertise="fd00::a:1").advertised("0.0.0.0:7100") == "[fd00::a:1]:7100"


def test_members_of_etcd_are_named_with_tls_and_without() -> None:
    for documents, scheme in ((render("base"), ""), (render(PRODUCTION), "https://")):
        members = [f"{scheme}archon-etcd-{number}.archon-etcd:2379" for number in range(3)]
        assert parse_members(config(documents)["etcd"]) == members


def test_every_process_is_encrypted_in_production() -> None:
    assert set(templates(render(PRODUCTION))) >= OURS


def test_a_generated_secret_of_hooks_replaces_the_orchestrators(tmp_path: Path) -> None:
    def name_with(key: str) -> str:
        (tmp_path / "hooks.key").write_text(key)
        generated = {"name": "archon-hooks", "namespace": "archon", "files": ["hooks.key"]}
        base = os.path.relpath(KUSTOMIZE / PRODUCTION, tmp_path.resolve())
        overlay = {"resources": [base], "secretGenerator": [generated]}
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        documents = build(tmp_path)
        [secret] = of_kind(documents, "Secret")
        assert hook_volume(documents)["secret"]["secretName"] == secret
        return secret

    assert name_with("a") != name_with("b")
