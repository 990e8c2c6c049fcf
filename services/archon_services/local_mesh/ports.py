"""Default ports, and free ports of this machine."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from typing import Final

from archon.errors import Unavailable

HOST: Final = "127.0.0.1"
DEFAULT_PORTS: Final[Mapping[str, int]] = {"orchestrator": 7100, "registry": 7101, "memory": 7102}

# Below the range of outgoing connections, so that a port stays free until its process binds it, and after a crash until
# the next process does.
_LOW, _HIGH = 15_000, 32_000


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(taken: set[int], host: str = HOST) -> int:
    """Returns a free port that is not in `taken`, and adds it. Raises Unavailable if none is found."""
    for _ in range(1_000):
        port = random.randrange(_LOW, _HIGH)
        if port not in taken and is_free(port, host):
            taken.add(port)
            return port
    if not is_free(0, host):
        raise Unavailable(f"{host} is not an address of this machine: Archon needs IPv4 on the loopback interface")
    raise Unavailable("no port is free on this machine")
