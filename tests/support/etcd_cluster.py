"""A real etcd of three members on this machine, built by `make tools`: members are killed, frozen and started again one
by one. The wheel's etcd isn't used for it: 3.5.1 can lose what a member had committed that is killed under load."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from archon.errors import Unavailable
from archon_services.testing import EtcdProcess
from archon_services.testing.etcd import free_ports
from tests.support.require import require

MEMBERS: Final = 3
HOST: Final = "127.0.0.1"

PATIENT: Final = ("--heartbeat-interval", "100", "--election-timeout", "1000")
"""Milliseconds. Shorter ones elect anew whenever the machine is busy."""


class EtcdMember(EtcdProcess):
    """One of the members. `start` waits for a cluster that answers, `launch` doesn't."""

    def __init__(self, name: str, folder: Path, binary: Path, ports: tuple[int, int]) -> None:
        super().__init__(folder, host=HOST, port=ports[0], peer_port=ports[1])
        self.name = name
        self.cluster: Sequence[EtcdMember] = ()
        self._binary = binary

    @property
    def peer_url(self) -> str:
        """Where the other members find it."""
        return f"http://{self._peer}"

    def is_leader(self) -> bool:
        """Whether it says so itself; False where it doesn't answer."""
        request = urllib.request.Request(f"http://{self.address}/v3/maintenance/status", data=b"{}", method="POST")
        try:
            with urllib.request.urlopen(request, timeout=1.0) as answer:
                status = json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return False
        return bool(status["header"]["member_id"] == status.get("leader"))

    def _command(self) -> Sequence[str]:
        client = f"http://{self.address}"
        return (
            *(str(self._binary), "--name", self.name, "--data-dir", str(self.data_dir / "data")),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
            *("--initial-cluster", ",".join(f"{one.name}={one.peer_url}" for one in self.cluster)),
            *("--initial-cluster-token", str(self.data_dir.parent), "--log-level", "warn", *PATIENT),
        )


class EtcdCluster:
    """Three members in a temporary folder. Usable as a context manager; methods block."""

    def __init__(self) -> None:
        binary = require("etcd-cluster", "etcd-3.6")
        self.folder = Path(tempfile.mkdtemp(prefix="archon-etcd-cluster-"))
        names = [f"m{number}" for number in range(1, MEMBERS + 1)]
        free = free_ports(HOST, 2 * MEMBERS)
        ports = zip(free[::2], free[1::2], strict=True)
        self.members = [
            EtcdMember(name, self.folder / name, binary, two) for name, two in zip(names, ports, strict=True)
        ]
        for member in self.members:
            member.cluster = self.members

    @property
    def address(self) -> str:
        """host:port of all members, as ARCHON_ETCD takes it."""
        return ",".join(member.address for member in self.members)

    def start(self, timeout: float = 20.0) -> None:
        """Starts what isn't running, and waits until every member answers."""
        for member in self.members:
            member.launch()
        for member in self.members:
            member.wait(timeout)

    def leader(self, timeout: float = 10.0) -> EtcdMember:
        """Raises Unavailable where none is elected within `timeout` seconds."""
        end = time.monotonic() + timeout
        while True:
            for member in self.members:
                if member.running and member.is_leader():
                    return member
            if time.monotonic() > end:
                raise Unavailable(f"no leader of etcd is elected within {timeout:g} s")
            time.sleep(0.05)

    def followers(self) -> list[EtcdMember]:
        """All but the leader."""
        leader = self.leader()
        return [member for member in self.members if member is not leader]

    def close(self) -> None:
        """Ends every member by its process id and removes the folder. Idempotent."""
        for member in self.members:
            member.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> EtcdCluster:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
