"""Default ports, and free ports of this machine."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from archon.errors import Unavailable
from archon.loopback import IPV4, is_free, loopback_host

DEFAULT_PORTS: Final[Mapping[str, int]] = {"orchestrator": 7100, "registry": 7101, "memory": 7102}

# Below the range of outgoing connections, so that a port stays free until its process binds it, and after a crash until
# the next process does.
_LOW, _HIGH = 15_000, 32_000


def is_free_here(port: int) -> bool:
    """Returns whether a server could listen on the port of the loopback address now."""
    return is_free(loopback_host(), port)


def free_port(taken: set[int]) -> int:
    """Returns a free port of the loopback address that is not in `taken`, and adds it. Raises Unavailable if none is
    found."""
    for _ in range(1_000):
        port = random.randrange(_LOW, _HIGH)
        if port not in taken and is_free_here(port):
            taken.add(port)
            return port
    if not is_free_here(0):
        raise Unavailable(f"neither {IPV4} nor ::1 is an address of this machine: its loopback interface is down")
    raise Unavailable("no port is free on this machine")
