"""Free ports of this machine."""

from __future__ import annotations

import pytest

from archon.errors import Unavailable
from archon_services.local_mesh import ports
from archon_services.local_mesh.ports import free_port


def test_each_port_is_another_one() -> None:
    taken: set[int] = set()
    chosen = {free_port(taken) for _ in range(20)}
    assert len(chosen) == 20
    assert taken == chosen


def test_a_machine_without_a_loopback_address_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "loopback_host", lambda: "192.0.2.1")  # RFC 5737: an address of no machine
    with pytest.raises(Unavailable, match=r"neither 127\.0\.0\.1 nor ::1 is an address of this machine"):
        free_port(set())
