"""python -m tests.adversary.million: a million inputs over connections of strangers and of members, by kind.

- `open`: every RPC of a mesh that lets everybody in (`fuzz`)
- `stranger`: no token, with any metadata: everything is refused
- `changed`: tokens that were changed, with any metadata: everything is refused
- `tokens`: a valid token of each kind of caller
- `tls`: a certificate of each kind of caller
- `bytes`: broken frames of HTTP/2 and other protocols at ports without TLS
- `handshakes`: the same at ports with TLS, and broken handshakes

No process may end, answer UNKNOWN, INTERNAL or a traceback, log one, or grow by more than MAX_GROWTH after the first
fifth of the inputs; no connection may be let in that must not; an honest run works before, during and after.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import grpc.aio
import psutil

from archon.client import Client
from archon.principal import Kind
from tests.adversary.fuzz import MAX_GROWTH, Fuzz, Known, Presented, honest_run, insecure, nothing, tracebacks
from tests.adversary.fuzz_bytes import Bytes
from tests.adversary.fuzz_tokens import Changed, Valid, stranger
from tests.bench.processes import Processes
from tests.bench.security import MESH, Security

SHARES: Final = {
    "open": ("none", 4),
    "stranger": ("tokens", 28),
    "changed": ("tokens", 30),
    "tokens": ("tokens", 8),
    "tls": ("tls", 5),
    "bytes": ("none", 15),
    "handshakes": ("tls", 10),
}
"""The security of the mesh of each kind, and its share of all inputs in percent."""

INPUTS: Final = 1_000_000
WARM_UP: Final = 0.2
MAX_LOG: Final = 64 * 1024 * 1024
"""Bytes that a process may log in all."""


@dataclass
class Mesh:
    """The processes of a mesh, by name."""

    processes: Processes
    targets: dict[str, str]
    security: Security
    folder: Path

    def client(self) -> Client:
        """Returns a client that is a member."""
        return self.security.client(self.targets["orchestrator"])

    def resident(self) -> dict[int, int]:
        """Returns the bytes of memory of each process. Raises NoSuchProcess if one has ended."""
        return {pid: psutil.Process(pid).memory_info().rss for pid in self.processes.pids.values()}


def start(processes: Processes, folder: Path, kind: str) -> Mesh:
    """Starts registry, memory service, orchestrator and three agents that are members by `none`, `tokens` or `tls`."""
    security = Security(kind, folder)
    registry, agents = processes.secured_members(security)
    memory = processes.start(
        "archon_services.memory",
        ARCHON_REGISTRY=registry,
        ARCHON_DB=str(folder / "memory.db"),
        **security.environment(Kind.SERVICE, "memory"),
    )
    orchestrator = processes.orchestrator(
        registry,
        "normal",
        ARCHON_MEMORY=memory,
        ARCHON_MAX_FAILURES="0",
        **security.environment(Kind.SERVICE, "orchestrator"),
    )
    targets = {"registry": registry, "memory": memory, "orchestrator": orchestrator, "agent": agents[0]}
    return Mesh(processes, targets, security, folder)


def tokens(mesh: Mesh, kind: Kind) -> dict[str, str]:
    """Returns the token of a kind for each service."""
    return {
        service: mesh.security.token(kind, "first", "agents" if service == "agent" else "services")
        for service in mesh.targets
    }


def member_channel(mesh: Mesh, kind: Kind) -> Callable[[str, str], grpc.aio.Channel]:
    """Returns what makes channels with the certificate of a kind of caller."""

    def channel(service: str, target: str) -> grpc.aio.Channel:
        folder = mesh.security.certificate(kind, "caller")
        credentials = grpc.ssl_channel_credentials(
            (folder / "ca.crt").read_bytes(), (folder / "tls.key").read_bytes(), (folder / "tls.crt").read_bytes()
        )
        name = f"first.agent.default.{MESH}" if service == "agent" else f"{service}.service.default.{MESH}"
        options = [("grpc.max_receive_message_length", -1), ("grpc.ssl_target_name_override", name)]
        return grpc.aio.secure_channel(target, credentials, options=options)

    return channel


def _tls(mesh: Mesh, *, member: bool) -> ssl.SSLContext:
    folder = mesh.security.certificate(Kind.ADMIN, "caller")
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    if member:
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


Send = Callable[[Sequence[int]], Awaitable[None]]


async def attack(mesh: Mesh, kind: str, first: int, inputs: int) -> tuple[Counter[str], list[str]]:
    """Sends the inputs of one kind. Returns how they ended, and what was found."""
    run_id = await honest_run(mesh.client)
    known = Known([run_id, f"{run_id}.1", "first", "second"])
    ends: Counter[str] = Counter()
    lines: list[str] = []
    if kind in ("bytes", "handshakes"):
        context = {"member": _tls(mesh, member=True), "stranger": _tls(mesh, member=False)} if kind != "bytes" else {}
        sender = Bytes(list(mesh.targets.values()), **context)
        await _in_two(mesh, sender.run, first, inputs, lines)
        return sender.ends, lines + sender.findings
    senders = _senders(mesh, kind, known)
    part = inputs // len(senders)
    for index, fuzz in enumerate(senders):
        await _in_two(mesh, fuzz.run, first + index * part, part, lines)
        await fuzz.close()
        ends += fuzz.codes
        lines += [f"seed {finding.seed}: {finding.method}: {finding.why}" for finding in fuzz.findings]
    return ends, lines


def _senders(mesh: Mesh, kind: str, known: Known) -> list[Fuzz]:
    if kind == "tls":
        return [Fuzz(mesh.targets, known, nothing, member_channel(mesh, each)) for each in Kind]
    presented: dict[str, Presented] = {"open": nothing, "stranger": stranger}
    if kind == "changed":
        presented[kind] = Changed(tokens(mesh, Kind.ADMIN))
    if kind == "tokens":
        presented[kind] = Valid(
            {(each, service): token for each in Kind for service, token in tokens(mesh, each).items()}
        )
    return [Fuzz(mesh.targets, known, presented[kind], insecure)]


async def _in_two(mesh: Mesh, send: Send, first: int, inputs: int, lines: list[str]) -> None:
    """Sends the inputs, with an honest run after a fifth and at the end; adds a line for each process that grows."""
    warm = first + int(inputs * WARM_UP)
    await send(range(first, warm))
    await honest_run(mesh.client)
    before = mesh.resident()
    await send(range(warm, first + inputs))
    await honest_run(mesh.client)
    for (pid, old), (address, _) in zip(before.items(), mesh.processes.pids.items(), strict=True):
        grown = psutil.Process(pid).memory_info().rss - old
        if grown > MAX_GROWTH:
            lines.append(f"the process at {address} grew by {grown / 1024 / 1024:.0f} MB")


def fuzz_kind(kind: str, first: int, inputs: int) -> list[str]:
    """Starts a mesh and attacks it. Prints the figures; returns what was found."""
    with tempfile.TemporaryDirectory() as name, Processes(Path(name)) as processes:
        folder = Path(name)
        mesh = start(processes, folder, SHARES[kind][0])
        began, before = time.monotonic(), sum(mesh.resident().values())
        ends, lines = asyncio.run(attack(mesh, kind, first, inputs))
        took, after = time.monotonic() - began, sum(mesh.resident().values())
        logged = max(path.stat().st_size for path in folder.rglob("*.log"))
        if logged > MAX_LOG:
            lines.append(f"a process has logged {logged / 1024 / 1024:.0f} MB")
        lines += tracebacks(folder)
        figures = f"{before >> 20} MB before, {after >> 20} MB after, {logged >> 10} KB of the longest log"
        print(f"{kind}: {inputs:,} inputs in {took:.0f} s, {figures}: {dict(ends.most_common())}", flush=True)
        return [f"{kind}: {line}" for line in lines[:20]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found. Returns 1 if there is anything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", choices=SHARES, action="append", help="kinds (default: all)")
    given = parser.parse_args(arguments)
    lines: list[str] = []
    for kind in given.only or SHARES:
        lines += fuzz_kind(kind, given.seed, max(given.inputs * SHARES[kind][1] // 100, 10))
    print("\n".join(lines) or "nothing was found")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
