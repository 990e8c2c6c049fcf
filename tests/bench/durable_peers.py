"""The durable engines that run as a server beside a worker and a client: Restate and Temporal. Their processes start one
by one, so that a test can kill one and start it again."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from typing_extensions import override

from tests.bench.drive import free_address
from tests.bench.environments import Environment, GoProgram, Installation, NodePackage
from tests.bench.processes import Processes

RESTATE_PLATFORM = (
    f"{platform.system()}-{platform.machine()}".lower().replace("x86_64", "x64").replace("aarch64", "arm64")
)
RESTATE_SERVER = NodePackage("restate-server", (f"@restatedev/restate-server-{RESTATE_PLATFORM}@1.7.12",))
RESTATE = Environment("restate", ("restate-sdk[client]==1.3.0", "hypercorn==0.18.0"))
TEMPORAL_SERVER = GoProgram("temporal-server", ("github.com/temporalio/cli/cmd/temporal@v1.5.1",))
TEMPORAL = Environment("temporal", ("temporalio==1.35.0",))


class Engine(Protocol):
    """A durable engine. Each method starts a process and returns the key of its process id in `Processes.pids`; raises
    NotInstalled, NotStarted."""

    installations: ClassVar[tuple[Installation, ...]]

    def server(self) -> str:
        """Starts the server; after it was killed, on the same address and the same files."""

    def worker(self) -> str:
        """Starts the process that executes the steps; after it was killed, on the same address."""

    def client(self) -> str:
        """Starts the process that makes runs, whose address takes the load."""


@dataclass
class Restate(Engine):
    """Restate's server with the defaults of one node: a replicated log with one replica, which fdatasync makes durable
    before it acknowledges a batch. Two partitions per core of a machine with two, not 24: each is a log and a state
    machine of its own, and 24 took a third more of the server's processor time at 64 runs. The server reports no usage to
    its makers; the ingress has no timeout of its own."""

    installations: ClassVar[tuple[Installation, ...]] = (RESTATE_SERVER, RESTATE)
    started: Processes
    folder: Path
    node: str = field(default_factory=free_address)
    ingress: str = field(default_factory=free_address)
    admin: str = field(default_factory=free_address)
    service: str = field(default_factory=free_address)

    @override
    def server(self) -> str:
        program = RESTATE_SERVER.program("bin/restate-server")
        config = self.folder / "restate.toml"
        config.write_text(
            f"base-dir = {json.dumps(str(self.folder / 'data'))}\n"
            f'node-name = "bench"\nlisten-mode = "tcp"\nbind-address = "{self.node}"\n'
            f'default-num-partitions = 4\ndisable-telemetry = true\nlog-filter = "warn"\n'
            f'[ingress]\nbind-address = "{self.ingress}"\n[admin]\nbind-address = "{self.admin}"\n'
        )
        arguments = ("--no-logo", "--config-file", str(config))
        certificates = RESTATE.file("certifi/cacert.pem")  # the server panics if it finds no certificates
        return self.started.server(program, *arguments, address=self.ingress, SSL_CERT_FILE=str(certificates))

    @override
    def worker(self) -> str:
        return self.started.start("tests.bench.peers_restate", "service", self.service, python=RESTATE.python())

    @override
    def client(self) -> str:
        arguments = ("load", self.ingress, self.admin, self.service)
        return self.started.start("tests.bench.peers_restate", *arguments, python=RESTATE.python())


@dataclass
class Temporal(Engine):
    """Temporal's development server on a file, with the journal mode and `synchronous = FULL` that the configuration of
    Temporal's own server has for SQLite in a file. Eager activities, which the SDK offers, are off in this server until
    they are switched on. The server has one shard and one connection to SQLite, which no option changes."""

    installations: ClassVar[tuple[Installation, ...]] = (TEMPORAL_SERVER, TEMPORAL)
    started: Processes
    folder: Path
    address: str = field(default_factory=free_address)

    @override
    def server(self) -> str:
        host, _, port = self.address.rpartition(":")
        options = ["--ip", host, "--port", port, "--headless", "--db-filename", str(self.folder / "temporal.db")]
        for pragma in ("journal_mode=wal", "synchronous=2"):
            options += ["--sqlite-pragma", pragma]
        options += ["--dynamic-config-value", "system.enableActivityEagerExecution=true"]
        arguments = ("server", "start-dev", *options, "--log-level", "error")
        return self.started.server(TEMPORAL_SERVER.program(), *arguments, address=self.address)

    @override
    def worker(self) -> str:
        return self.started.start("tests.bench.peers_temporal", "worker", self.address, python=TEMPORAL.python())

    @override
    def client(self) -> str:
        return self.started.start("tests.bench.peers_temporal", "load", self.address, python=TEMPORAL.python())
