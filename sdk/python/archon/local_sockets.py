"""Unix sockets between the processes of a mesh on one machine: cheaper than TCP, and closed to other users.

With ARCHON_SOCKETS, the folder of the sockets, a server listens on `PORT.sock` there beside its port, and a client that
is to connect to a port of this machine takes the socket of that port, if a server answers on it. Members that know
nothing of this, and people, use the port.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from archon.private_files import fault_of

FOLDER: Final = "ARCHON_SOCKETS"

_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
LONGEST: Final = 100
"""Bytes of a path; a socket's may have 107 (`sun_path` of unix(7)), on macOS 103."""


def socket_of(port: int) -> Path | None:
    """Returns the socket of the server with this port; None if sockets are not wanted, or its path is too long."""
    folder = os.environ.get(FOLDER, "")
    if not folder:
        return None
    try:
        path = Path(folder, f"{port}.sock").absolute()
    except FileNotFoundError:  # the current directory has been removed
        return None
    return path if len(os.fsencode(path)) <= LONGEST else None


def nearest(target: str) -> str:
    """Returns the target of the socket that leads to `target` (`host:port`), or `target` itself if there is none."""
    host, _, port = target.rpartition(":")
    if host not in _HOSTS or not port.isdecimal():
        return target
    path = socket_of(int(port))
    return f"unix:{path}" if path is not None and _is_own(path.parent) and _answers(path) else target


def _is_own(folder: Path) -> bool:
    """Whether no other user could have put a socket into the folder."""
    try:
        return not fault_of(folder)
    except OSError:
        return False


def _answers(path: Path) -> bool:
    """Whether a process listens: the socket of one that was killed stays in its folder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except BlockingIOError:  # its queue is full
            return True
        except OSError:
            return False
    return True
