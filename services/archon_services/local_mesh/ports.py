"""Ports on this machine: which are free."""

from __future__ import annotations

import random
import socket

from archon.errors import Unavailable

HOST = "127.0.0.1"
# Below what systems take for outgoing connections: a chosen port stays free until its process, or its successor
# after a crash, binds it.
_LOW, _HIGH = 15_000, 32_000


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a server could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_port(taken: set[int]) -> int:
    """A free port that isn't among `taken`, and is among them afterwards."""
    for _ in range(1_000):
        port = random.randrange(_LOW, _HIGH)
        if port not in taken and is_free(port):
            taken.add(port)
            return port
    raise Unavailable("no port is free on this machine")
