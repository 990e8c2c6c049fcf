"""Free ports of this machine."""

from __future__ import annotations

import pytest

from archon.errors import Unavailable
from archon_services.local_mesh.ports import free_port


def test_each_port_is_another_one() -> None:
    taken: set[int] = set()
    ports = {free_port(taken) for _ in range(20)}
    assert len(ports) == 20
    assert taken == ports


def test_a_machine_without_the_address_is_told_so() -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1 is not an address of this machine"):
        free_port(set(), host="192.0.2.1")  # RFC 5737: an address of no machine
