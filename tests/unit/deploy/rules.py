"""What holds for every mesh on Kubernetes, and what for one in production."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from archon.agent.server import ACK_GRACE
from archon.agent.settings import DRAIN_GRACE
from archon_services.local_mesh.options import DEFAULT_ROLES
from tests.unit.deploy.kustomize_output import of_kind, templates, variables
from tests.unit.deploy.manifests import Manifest

AGENTS: Final = frozenset(f"archon-{role}" for role in DEFAULT_ROLES)
GATEWAY: Final = "archon-gateway"
OURS: Final = AGENTS | {"archon-registry", "archon-memory", "archon-orchestrator", GATEWAY}
SECRETS: Final = frozenset(
    {
        "archon-audit",
        "archon-hooks",
        "archon-model",
        "archon-postgresql",
        "archon-session",
        "archon-keys",
        "archon-openid",
    }
)
"""Secrets that operators of a mesh create."""

OPERATORS_SECRETS: Final = frozenset({"archon-postgresql-app", "archon-postgresql-ca"})
"""Secrets that CloudNativePG creates."""

Rule = Callable[[list[Manifest]], Iterator[str]]


def containers(spec: Manifest) -> list[Manifest]:
    """Returns all containers of a pod spec."""
    return [*spec.get("initContainers", []), *spec["containers"]]


def is_several(name: str, documents: list[Manifest]) -> bool:
    """Whether a workload has more than one pod."""
    workload = of_kind(documents, "Deployment", "StatefulSet").get(name)
    if workload is None:
        return False
    return name in _scaled(documents) or workload["spec"].get("replicas", 1) > 1


def _scaled(documents: list[Manifest]) -> set[str]:
    scalers = of_kind(documents, "ScaledObject"), of_kind(documents, "HorizontalPodAutoscaler")
    return {scaled["spec"]["scaleTargetRef"]["name"] for found in scalers for scaled in found.values()}


def restricted(documents: list[Manifest]) -> Iterator[str]:
    """Pods have what Pod Security `restricted` asks for, and a root file system that is read-only."""
    namespace = of_kind(documents, "Namespace")["archon"]["metadata"]["labels"]
    if namespace.get("pod-security.kubernetes.io/enforce") != "restricted":
        yield "the namespace admits other pods"
    for name, template in templates(documents).items():
        context = template["spec"].get("securityContext", {})
        if context.get("runAsNonRoot") is not True or context.get("runAsUser", 0) < 1000:
            yield f"{name} may run as root"
        if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
            yield f"{name} has no seccomp profile"
        for container in containers(template["spec"]):
            inside = container.get("securityContext", {})
            if inside.get("allowPrivilegeEscalation") is not False or inside.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{name} keeps privileges"
            if inside.get("readOnlyRootFilesystem") is not True:
                yield f"{name} can write to its root"


def without_api(documents: list[Manifest]) -> Iterator[str]:
    """Pods have an account of their own and no token of it, and no variables of Services."""
    accounts = of_kind(documents, "ServiceAccount")
    for name, template in templates(documents).items():
        spec = template["spec"]
        if spec.get("serviceAccountName") != name or name not in accounts:
            yield f"{name} has no account of its own"
        elif accounts[name].get("automountServiceAccountToken") is not False:
            yield f"the account {name} gives its token to pods"
        if spec.get("automountServiceAccountToken") is not False:
            yield f"{name} mounts a token"
        if spec.get("enableServiceLinks") is not False:
            yield f"{name} gets variables of Services"


def resources(documents: list[Manifest]) -> Iterator[str]:
    """CPU is requested and not limited; memory is both."""
    for name, template in templates(documents).items():
        for container in containers(template["spec"]):
            if set(container["resources"].get("requests", {})) != {"cpu", "memory"}:
                yield f"{name} requests too little"
            if set(container["resources"].get("limits", {})) != {"memory"}:
                yield f"{name} has other limits than of memory"


def replicas(documents: list[Manifest]) -> Iterator[str]:
    """A number of replicas has one owner."""
    for name, workload in of_kind(documents, "Deployment", "StatefulSet").items():
        if ("replicas" in workload["spec"]) == (name in _scaled(documents)):
            yield f"{name}: replicas are set by both or none"


def spread(documents: list[Manifest]) -> Iterator[str]:
    """Pods of a kind are on several machines."""
    for name, template in templates(documents).items():
        if not is_several(name, documents):
            continue
        constraints = template["spec"].get("topologySpreadConstraints", [])
        keys = {constraint["topologyKey"] for constraint in constraints}
        if not {"kubernetes.io/hostname", "topology.kubernetes.io/zone"} <= keys:
            yield f"{name} is not spread"
        for constraint in constraints:
            selected = constraint["labelSelector"]["matchLabels"]
            if selected != {"app.kubernetes.io/name": name} or not selected.items() <= labels(template).items():
                yield f"{name} is spread by labels of others"


def labels(template: Manifest) -> dict[str, str]:
    """Returns the labels of the pods of a template."""
    return dict(template["metadata"]["labels"])


def disruptions(documents: list[Manifest]) -> Iterator[str]:
    """A budget lets one of several pods go, and never keeps an only one."""
    budgets = of_kind(documents, "PodDisruptionBudget")
    for name, template in templates(documents).items():
        mine = [
            budget["spec"]
            for budget in budgets.values()
            if budget["spec"]["selector"]["matchLabels"].items() <= labels(template).items()
        ]
        if len(mine) != int(is_several(name, documents)):
            yield f"{name} has {len(mine)} budgets"
        elif mine and mine[0].get("maxUnavailable") != 1:
            yield f"the budget of {name} lets not one go"


def draining(documents: list[Manifest]) -> Iterator[str]:
    """Agents have the time of their drain, and nothing delays SIGTERM."""
    for name, template in templates(documents).items():
        for container in template["spec"]["containers"]:
            if "lifecycle" in container:
                yield f"{name} delays SIGTERM"
            drain = float(variables(container).get("ARCHON_DRAIN", DRAIN_GRACE))
            if name in AGENTS and template["spec"].get("terminationGracePeriodSeconds", 30) <= drain + ACK_GRACE + 5:
                yield f"{name} is killed before it has drained"


def volumes(documents: list[Manifest]) -> Iterator[str]:
    """A volume of one node, and a file of SQLite, has one process at a time; files are on volumes."""
    workloads = of_kind(documents, "Deployment", "StatefulSet")
    for name, workload in workloads.items():
        spec = workload["spec"]["template"]["spec"]
        claims = any("persistentVolumeClaim" in volume for volume in spec.get("volumes", []))
        if workload["kind"] == "Deployment" and claims and workload["spec"].get("strategy") != {"type": "Recreate"}:
            yield f"{name}: two pods want one volume"
        for container in spec["containers"]:
            mounted = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
            values = variables(container)
            files = [values[key] for key in ("ARCHON_JOURNAL", "ARCHON_DB") if isinstance(values.get(key), str)]
            if files and workload["spec"].get("replicas") != 1:
                yield f"{name}: several processes on one file"
            written = [*files, *(["/tmp/x"] if name in OURS else [])]
            if not all(any(path.startswith(f"{mount}/") for mount in mounted) for path in written):
                yield f"{name} writes to its root"


def addresses(documents: list[Manifest]) -> Iterator[str]:
    """Whatever is dialled by itself advertises the address of its pod."""
    for name in AGENTS | {"archon-orchestrator"}:
        [container] = templates(documents)[name]["spec"]["containers"]
        if name in AGENTS or is_several(name, documents):
            source = variables(container).get("ARCHON_ADVERTISE")
            if source != {"fieldRef": {"fieldPath": "status.podIP"}}:
                yield f"{name} does not say its address"


def references(documents: list[Manifest]) -> Iterator[str]:
    """Names of secrets, values and claims are of objects that exist."""
    made = {certificate["spec"]["secretName"] for certificate in of_kind(documents, "Certificate").values()}
    secrets = made | SECRETS | (OPERATORS_SECRETS if of_kind(documents, "Cluster") else set())
    known = {"secret": secrets, "configMap": set(of_kind(documents, "ConfigMap"))}
    for name, template in templates(documents).items():
        for kind, reference in _references(template["spec"]):
            if reference not in known[kind]:
                yield f"{name} names the {kind} {reference}, which does not exist"


def _references(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, list):
        for item in part:
            yield from _references(item)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in ("secretKeyRef", "secretRef"):
                yield "secret", value["name"]
            elif key == "configMapKeyRef" or (key == "configMap" and "name" in value):
                yield "configMap", value["name"]
            elif key == "secret":
                yield "secret", value["secretName"]
            else:
                yield from _references(value)


def selectors(documents: list[Manifest]) -> Iterator[str]:
    """Workloads select their own pods, Services those of one workload."""
    pods = {name: labels(template) for name, template in templates(documents).items()}
    for name, workload in of_kind(documents, "Deployment", "StatefulSet").items():
        selected = workload["spec"]["selector"]["matchLabels"].items()
        if [other for other, own in pods.items() if selected <= own.items()] != [name]:
            yield f"{name} selects other pods"
    for name, service in of_kind(documents, "Service").items():
        if [other for other, own in pods.items() if service["spec"]["selector"].items() <= own.items()] != [name]:
            yield f"the Service {name} selects other pods"


def encrypted(documents: list[Manifest]) -> Iterator[str]:
    """Every process has a certificate of its own, is probed beside it, and speaks to etcd with TLS."""
    certificates = of_kind(documents, "Certificate")
    for name, template in templates(documents).items():
        if name not in OURS:
            continue
        [container] = template["spec"]["containers"]
        values = variables(container)
        if "ARCHON_INSECURE" in values or "ARCHON_TLS" not in values:
            yield f"{name} speaks in clear text"
            continue
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        mount = mounts.get(values["ARCHON_TLS"], {})
        mounted = {volume["name"]: volume for volume in template["spec"]["volumes"]}.get(mount.get("name"), {})
        secret = mounted.get("secret", {})
        if name not in certificates or secret.get("secretName") != certificates[name]["spec"]["secretName"]:
            yield f"{name} has the certificate of another"
        if mount.get("readOnly") is not True or secret.get("defaultMode") != 0o440:
            yield f"the key of {name} is open"
        if name == GATEWAY:
            yield from _serves_https(container, values)
            continue
        probes = {container[f"{kind}Probe"]["grpc"]["port"] for kind in ("startup", "liveness", "readiness")}
        health = int(values.get("ARCHON_HEALTH_PORT", 0))
        if probes != {health} or health not in {port["containerPort"] for port in container["ports"]}:
            yield f"{name} is probed where it needs a certificate"
    arguments = templates(documents)["archon-etcd"]["spec"]["containers"][0]["args"]
    clear = any(re.match(r"--listen-(client|peer)-urls=http:", argument) for argument in arguments)
    if clear or not {"--client-cert-auth=true", "--peer-client-cert-auth=true"} <= set(arguments):
        yield "etcd speaks in clear text"


def _serves_https(container: Manifest, values: Manifest) -> Iterator[str]:
    """The gateway asks no caller for a certificate, so that it is probed at its own port."""
    if values.get("ARCHON_HTTP_TLS") != values["ARCHON_TLS"]:
        yield f"{GATEWAY} speaks in clear text"
    if {container[f"{kind}Probe"]["httpGet"].get("scheme") for kind in ("startup", "liveness", "readiness")} != {
        "HTTPS"
    }:
        yield f"{GATEWAY} is probed in clear text"


def logged_in(documents: list[Manifest]) -> Iterator[str]:
    """A session that one replica has begun is known to the others, and every service verifies the token in it."""
    templates_by_name = templates(documents)
    [gateway] = templates_by_name[GATEWAY]["spec"]["containers"]
    values = variables(gateway)
    folder = str(values.get("ARCHON_SESSION_KEY", "")).rpartition("/")[0]
    shared = {mount["mountPath"] for mount in gateway["volumeMounts"] if mount.get("readOnly")}
    if folder not in shared:
        yield f"each replica of {GATEWAY} has sessions of its own"
    if "ARCHON_PUBLIC_URL" not in values:
        yield f"{GATEWAY} does not know its name"
    own = {key: value for key, value in values.items() if key == "ARCHON_KEYS" or key.startswith("ARCHON_OIDC_")}
    own.pop("ARCHON_OIDC_CLIENT_SECRET", None)
    for name in OURS - AGENTS:
        [container] = templates_by_name[name]["spec"]["containers"]
        if not own.items() <= variables(container).items():
            yield f"{name} does not verify the tokens that {GATEWAY} does"
    if not own:
        yield f"{GATEWAY} knows no caller"


def hooked(documents: list[Manifest]) -> Iterator[str]:
    """Every orchestrator opens the secrets of hooks that another one has sealed, and none waits for their keys."""
    template = templates(documents)["archon-orchestrator"]["spec"]
    [container] = template["containers"]
    folder = str(variables(container).get("ARCHON_HOOK_KEY", "")).rpartition("/")[0]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    mount = mounts.get(folder, {})
    volume = {volume["name"]: volume for volume in template["volumes"]}.get(mount.get("name"), {})
    if "secret" not in volume:
        yield "each orchestrator has keys of hooks of its own"
        return
    if mount.get("readOnly") is not True or volume["secret"].get("defaultMode") != 0o440:
        yield "the keys of hooks are open"
    if "subPath" in mount:
        yield "keys of hooks that change do not reach the orchestrators"
    if volume["secret"].get("optional") is not True:
        yield "the orchestrators do not start without keys of hooks"


def quorum(documents: list[Manifest]) -> Iterator[str]:
    """etcd has three members on three machines."""
    etcd = of_kind(documents, "StatefulSet")["archon-etcd"]["spec"]
    constraints = etcd["template"]["spec"]["topologySpreadConstraints"]
    hostname = [each for each in constraints if each["topologyKey"] == "kubernetes.io/hostname"]
    if etcd["replicas"] != 3 or [each["whenUnsatisfiable"] for each in hostname] != ["DoNotSchedule"]:
        yield "a machine holds the quorum of etcd"


EVERYWHERE: Final[tuple[Rule, ...]] = (
    *(restricted, without_api, resources, replicas, spread, draining),
    *(volumes, addresses, references, selectors),
)
"""Rules of every mesh."""

IN_PRODUCTION: Final[tuple[Rule, ...]] = (*EVERYWHERE, disruptions, encrypted, quorum, logged_in, hooked)
"""Rules of a mesh in production."""


def faults(documents: list[Manifest], rules: tuple[Rule, ...]) -> list[str]:
    """Returns what does not hold."""
    return [fault for rule in rules for fault in rule(documents)]
