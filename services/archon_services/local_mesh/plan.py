"""From options to processes: which, with what command, environment and address."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from archon_services.local_mesh.errors import StartFailed
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import ROLES, SERVICES, MeshOptions
from archon_services.local_mesh.ports import HOST, free_port, is_free

_USUAL: Final = {"orchestrator": 7100, "registry": 7101, "memory": 7102}
# Ours to say for each process: what the user's shell holds was meant for one process started by hand.
_OURS: Final = (
    "ARCHON_HOST",
    "ARCHON_PORT",
    "ARCHON_ADVERTISE",
    "ARCHON_READY_FILE",
    "ARCHON_DEPENDS_ON",
    "ARCHON_DB",
    "ARCHON_ETCD",
)


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process. `kind` is etcd, service or agent; `address` empty where the process picks a port and says so in its
    ready file; `rank` orders the end: the lowest goes first."""

    name: str
    kind: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    address: str
    rank: int


@dataclass(frozen=True, slots=True)
class Plan:
    """All processes, in the order they are shown, and what a person should know of the choices made."""

    specs: tuple[ProcessSpec, ...]
    etcd: str
    registry: str
    notes: tuple[str, ...]
    restarts: bool


def make_plan(home: Home, options: MeshOptions) -> Plan:
    """Chooses ports. Raises StartFailed where a port that was asked for is taken."""
    notes: list[str] = []
    addresses = _addresses(options, notes)
    etcd = options.etcd or addresses.get("etcd", "")
    # What doesn't run here is where the environment says, else at its usual place.
    registry = addresses.get("registry") or os.environ.get("ARCHON_REGISTRY") or f"{HOST}:{_USUAL['registry']}"
    memory = addresses.get("memory") or (os.environ.get("ARCHON_MEMORY", "") if options.only else "")
    base = {key: value for key, value in os.environ.items() if key not in _OURS}
    base |= {"ARCHON_HOME": str(home.root), "ARCHON_REGISTRY": registry, "ARCHON_HOST": HOST, "PYTHONUNBUFFERED": "1"}
    own = {
        "etcd": {},
        "registry": {"ARCHON_ETCD": etcd},
        "memory": {"ARCHON_DB": str(home.memory)},
        "orchestrator": {
            "ARCHON_MEMORY": memory,
            "ARCHON_JOURNAL": os.environ.get("ARCHON_JOURNAL") or str(home.journal),
        },
    }
    specs = []
    for name in SERVICES:
        if not options.wants(name):
            continue
        address = addresses[name]
        command = _etcd(home, address) if name == "etcd" else _python(f"archon_services.{name}")
        environment = {**base, **own[name], **options.environment.get(name, {})}
        environment |= {"ARCHON_PORT": address.rpartition(":")[2], "ARCHON_READY_FILE": str(home.ready_file(name))}
        kind = "etcd" if name == "etcd" else "service"
        specs.append(ProcessSpec(name, kind, command, environment, address, 10 - SERVICES.index(name)))
    agents = {"ARCHON_PORT": "0", "ARCHON_MEMORY": memory, **({"ARCHON_MODEL": options.model} if options.model else {})}
    for role in ROLES:
        for number in range(1, (options.replicas.get(role, 1) if options.wants(role) else 0) + 1):
            name = f"{role}-{number}"
            environment = {**base, **agents, **options.environment.get(role, {})}
            environment["ARCHON_READY_FILE"] = str(home.ready_file(name))
            specs.append(ProcessSpec(name, "agent", _python("archon_services.agents", role), environment, "", 0))
    return Plan(tuple(specs), etcd, registry, tuple(notes), options.restarts)


def _addresses(options: MeshOptions, notes: list[str]) -> dict[str, str]:
    taken = {*_USUAL.values(), *options.ports.values()}
    addresses = {}
    for name in SERVICES:
        if not options.wants(name):
            continue
        port, usual = options.ports.get(name, 0), _USUAL.get(name, 0)
        if port and not is_free(port):
            raise StartFailed(f"port {port}, asked for {name}, is taken by another process")
        if not port and usual and not options.free_ports:
            port = usual if is_free(usual) else 0
            if not port:
                port = free_port(taken)
                notes.append(f"port {usual} is taken, so {name} listens on {port}")
        addresses[name] = f"{HOST}:{port or free_port(taken)}"
    return addresses


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", module, *arguments)  # -P: what lies in the current directory is not ours


def _etcd(home: Home, address: str) -> tuple[str, ...]:
    from archon_services.local_mesh.etcd_server import etcd_command

    peer = f"{HOST}:{free_port({int(address.rpartition(':')[2])})}"
    return etcd_command(Path(home.etcd) / "data", address, peer)
