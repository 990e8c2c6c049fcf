"""The plan of a mesh: its processes with command, environment and address."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from archon import local_sockets, mesh_id
from archon.history import keys as audit_keys
from archon.loopback import loopback_host
from archon.principal import Kind, Principal
from archon.security import certificates, credentials, keys
from archon.telemetry import metrics_export
from archon_services.local_mesh import jaeger
from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.etcd_server import FIRST_ROOM, UNIX, etcd_command, etcd_on_sockets, etcd_socket
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.jaeger import NO_JAEGER, choose_addresses, exporting_to, jaeger_command
from archon_services.local_mesh.options import GATEWAY, ROLES, SERVERS, WORKFLOW, MeshOptions
from archon_services.local_mesh.ports import DEFAULT_PORTS, free_port, is_free_here

HTTP_TLS: Final = "ARCHON_HTTP_TLS"
"""The variable with the folder of the certificate that clients of the HTTP gateway see."""

# Variables that differ per process, so that values in the user's shell apply to processes started by hand only.
_PER_PROCESS: Final = (
    HTTP_TLS,
    "ARCHON_HOST",
    "ARCHON_PORT",
    "ARCHON_ADVERTISE",
    "ARCHON_READY_FILE",
    "ARCHON_LOG_FORMAT",
    "ARCHON_DEPENDS_ON",
    "ARCHON_DB",
    "ARCHON_ETCD",
)


_METRICS_PORT: Final = "OTEL_EXPORTER_PROMETHEUS_PORT"

DRAIN: Final = "3"
"""Seconds that agents have for tasks in progress when they are stopped, unless ARCHON_DRAIN is set: less than the grace
of the supervisor. Tasks that take longer are given back."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process.

    `kind` is etcd, jaeger, service, gateway or agent; `address` is empty if the process picks its own port, which is
    then in its ready file, and `unix:PATH` on a socket; processes with the lowest `rank` are stopped first; `role` is
    an agent's.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    address: str
    rank: int
    role: str = ""
    folder: Path | None = None
    """Where the process is started, for its owner alone; None: in the current directory."""

    @property
    def principal(self) -> Principal | None:
        """Who its calls are from; None if it makes none."""
        if self.kind in ("service", GATEWAY):
            return Principal(Kind.SERVICE, self.name)
        return Principal(Kind.AGENT, self.role, roles=frozenset({self.role})) if self.kind == "agent" else None

    @property
    def model(self) -> str:
        """The model of an agent; empty for other processes."""
        return (self.environment.get("ARCHON_MODEL") or "offline") if self.kind == "agent" else ""

    @property
    def metrics(self) -> str:
        """Returns host:port of its Prometheus endpoint; empty if it has none."""
        if self.kind not in ("service", GATEWAY, "agent") or not _serves_metrics():
            return ""
        host = self.environment.get("OTEL_EXPORTER_PROMETHEUS_HOST") or loopback_host()
        return f"{host}:{self.environment[_METRICS_PORT]}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All processes in display order, and `notes` about the chosen ports for users."""

    specs: tuple[ProcessSpec, ...]
    etcd: str
    registry: str
    notes: tuple[str, ...]
    restarts: bool
    home: Home
    roles: Mapping[str, Mapping[str, str]]
    """The environment of each role's instances, also of roles without any."""
    traces: str = ""
    """Where Jaeger answers queries (host:port); empty if the mesh runs none."""
    otlp: str = ""
    """Where Jaeger receives spans (host:port); empty if the mesh runs none."""

    taken: set[int] = field(default_factory=set)
    """Ports that were given to processes."""

    has_keys: bool = False
    """Whether the mesh signs its tokens itself: it has a registry of its own."""

    tls: bool = False
    """Whether its connections are encrypted."""

    @property
    def durable(self) -> bool:
        """Whether runs survive a restart of the orchestrator."""
        orchestrators = [spec.environment for spec in self.specs if spec.name == "orchestrator"]
        return all(environment.get("ARCHON_JOURNAL") != "memory" for environment in orchestrators)

    def instance(self, role: str, number: int) -> ProcessSpec:
        """Returns the process of the instance with this number. Raises KeyError for an unknown role."""
        name = f"{role}-{number}"
        environment = {**self.roles[role], "ARCHON_READY_FILE": str(self.home.ready_file(name))}
        environment |= _metrics_port(self.taken)
        environment |= _token_file(self.home, name) if self.has_keys else {}
        environment |= _certificate(self.home, name) if self.tls else {}
        return ProcessSpec(name, "agent", _python("archon_services.agents", role), environment, "", 0, role)


def make_plan(home: Home, options: MeshOptions) -> Plan:
    """Plans the processes and chooses their ports. Raises StartFailed if a fixed port is in use.

    The role `workflow` is one of them beside an orchestrator whose runs have used it: they may wait for it.
    """
    if home.workflow_role.exists() and options.wants("orchestrator"):
        options = replace(options, roles=(*options.roles, WORKFLOW))
    notes: list[str] = []
    addresses = _addresses(options, notes)
    if "etcd" in addresses and not options.ports.get("etcd"):
        addresses["etcd"] = etcd_socket(home.sockets) or addresses["etcd"]
    has_keys = "registry" in addresses
    if options.tls and not has_keys:
        raise StartFailed("--tls needs a registry of this mesh: certificates are issued for all of its members here")
    # Services that this mesh does not run are at the address in the environment, else at their default port.
    elsewhere = os.environ.get("ARCHON_REGISTRY") or f"{loopback_host()}:{DEFAULT_PORTS['registry']}"
    registry = addresses.get("registry") or elsewhere
    memory = addresses.get("memory") or (os.environ.get("ARCHON_MEMORY", "") if options.only else "")
    taken = {*DEFAULT_PORTS.values(), *(int(address.rpartition(":")[2]) for address in addresses.values())}
    traces = choose_addresses(free_ports=options.free_ports, taken=taken) if options.jaeger else NO_JAEGER
    base = _base_environment(home, registry, traces.otlp, has_keys=has_keys)
    specs = []
    if options.jaeger:
        command = jaeger_command(Path(options.jaeger), home.root / jaeger.NAME, traces, taken)
        specs.append(ProcessSpec(jaeger.NAME, jaeger.NAME, command, base, traces.query, 11))  # stopped last
    etcd = options.etcd or addresses.get("etcd", "")
    per_server = _server_environments(home, options, addresses, etcd, memory)
    for name in addresses:
        specs.append(_server(home, options, name, addresses[name], {**base, **per_server[name]}, taken, has_keys))
    plan = Plan(
        tuple(specs),
        etcd,
        registry,
        tuple(notes),
        options.restarts,
        home,
        _role_environments(options, base, memory),
        traces.query,
        traces.otlp,
        taken,
        has_keys,
        options.tls,
    )
    instances = [
        plan.instance(role, number)
        for role in ROLES
        if options.wants(role)
        for number in range(1, options.replicas.get(role, 1) + 1)
    ]
    return replace(plan, specs=(*specs, *instances))


def _base_environment(home: Home, registry: str, otlp: str, *, has_keys: bool) -> dict[str, str]:
    """Returns the environment of every process: the user's, without the variables that differ per process."""
    base = {key: value for key, value in os.environ.items() if key not in _PER_PROCESS}
    base |= {"ARCHON_HOME": str(home.root), "ARCHON_REGISTRY": registry, "ARCHON_HOST": loopback_host()}
    base |= {"PYTHONUNBUFFERED": "1", local_sockets.FOLDER: str(home.sockets)}
    base |= exporting_to(otlp) if otlp else {}
    if has_keys:  # else id and tokens are those of the mesh of another registry, which the environment gives
        base[mesh_id.VARIABLE] = home.mesh_id()
        base.pop(credentials.TOKEN, None)
        base[keys.VARIABLE] = str(home.folder.keys_file)
    base["ARCHON_LOG_FORMAT"] = "json"  # `archon logs` reads the fields
    return base


def _server_environments(
    home: Home, options: MeshOptions, addresses: Mapping[str, str], etcd: str, memory: str
) -> dict[str, dict[str, str]]:
    """Returns the variables of each server that name its data and the servers that it calls."""
    audit_key = os.environ.get(audit_keys.VARIABLE) or str(home.audit_key)
    return {
        "etcd": {},
        "registry": {"ARCHON_ETCD": etcd, audit_keys.VARIABLE: audit_key},
        "memory": {"ARCHON_DB": str(home.memory)},
        "orchestrator": {
            "ARCHON_MEMORY": memory,
            "ARCHON_JOURNAL": os.environ.get("ARCHON_JOURNAL") or str(home.journal),
            audit_keys.VARIABLE: audit_key,
        },
        GATEWAY: {
            "ARCHON_ORCHESTRATOR": _orchestrator(addresses),
            "ARCHON_MEMORY": memory,
            "ARCHON_TRIAL_MODELS": os.environ.get("ARCHON_TRIAL_MODELS") or _models(options),
        },
    }


def _server(
    home: Home,
    options: MeshOptions,
    name: str,
    address: str,
    environment: Mapping[str, str],
    taken: set[int],
    has_keys: bool,
) -> ProcessSpec:
    """Returns the process of a server."""
    environment = {**environment, **options.environment.get(name, {})}
    environment |= {"ARCHON_PORT": address.rpartition(":")[2], "ARCHON_READY_FILE": str(home.ready_file(name))}
    if name != "etcd":
        environment |= _metrics_port(taken)
        environment |= _token_file(home, name) if has_keys else {}
        environment |= _certificate(home, name) if options.tls else {}
    environment |= {HTTP_TLS: str(home.https_certificate)} if options.tls and name == GATEWAY else {}
    command = _etcd(home, address) if name == "etcd" else _python(f"archon_services.{name}")
    kind = name if name in ("etcd", GATEWAY) else "service"
    folder = home.sockets if address.startswith(UNIX) else None
    return ProcessSpec(name, kind, command, environment, address, 10 - SERVERS.index(name), folder=folder)


def _role_environments(options: MeshOptions, base: Mapping[str, str], memory: str) -> dict[str, dict[str, str]]:
    agents = {"ARCHON_PORT": "0", "ARCHON_MEMORY": memory, "ARCHON_DRAIN": os.environ.get("ARCHON_DRAIN") or DRAIN}
    agents |= {"ARCHON_MODEL": options.model} if options.model else {}
    return {role: {**base, **agents, **options.environment.get(role, {})} for role in ROLES}


def _models(options: MeshOptions) -> str:
    """Returns the models of the mesh's own agents, separated by commas."""
    return options.model or os.environ.get("ARCHON_MODEL") or "offline"


def _orchestrator(addresses: Mapping[str, str]) -> str:
    """Returns the orchestrator of the HTTP gateway, elsewhere unless this mesh runs one."""
    elsewhere = os.environ.get("ARCHON_ORCHESTRATOR") or f"{loopback_host()}:{DEFAULT_PORTS['orchestrator']}"
    return addresses.get("orchestrator", elsewhere)


def _addresses(options: MeshOptions, notes: list[str]) -> dict[str, str]:
    taken = {*DEFAULT_PORTS.values(), *options.ports.values()}
    addresses = {}
    for name in SERVERS:
        if not options.wants(name):
            continue
        port, default = options.ports.get(name, 0), DEFAULT_PORTS.get(name, 0)
        if port and not is_free_here(port):
            raise StartFailed(f"port {port} for {name} is in use by another process")
        if not port and default and not options.free_ports:
            port = default if is_free_here(default) else 0
            if not port:
                port = free_port(taken)
                notes.append(f"port {default} is in use: {name} listens on {port}")
        addresses[name] = f"{loopback_host()}:{port or free_port(taken)}"
    return addresses


def _token_file(home: Home, name: str) -> dict[str, str]:
    return {credentials.TOKEN_FILE: str(home.process_token(name))}


def _certificate(home: Home, name: str) -> dict[str, str]:
    return {certificates.VARIABLE: str(home.certificate(name))}


def _serves_metrics() -> bool:
    return metrics_export.PROMETHEUS in metrics_export.exporter_names()


def _metrics_port(taken: set[int]) -> dict[str, str]:
    """Returns the variable with a free port for the Prometheus endpoint of one process, if one is exported."""
    return {_METRICS_PORT: str(free_port(taken))} if _serves_metrics() else {}


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", module, *arguments)  # -P: no imports from the current directory


def _etcd(home: Home, address: str) -> tuple[str, ...]:
    data = Path(home.etcd) / "data"
    if not data.exists():
        home.check_room(FIRST_ROOM)
    if address.startswith(UNIX):
        return etcd_on_sockets(data)
    peer = f"{loopback_host()}:{free_port({int(address.rpartition(':')[2])})}"
    return etcd_command(data, address, peer)
