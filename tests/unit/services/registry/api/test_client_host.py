"""Which host a gRPC peer is."""

from __future__ import annotations

import pytest

from archon_services.registry.api.client_host import LOCAL, client_host


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:10.0.0.7:51234", "10.0.0.7"),
        ("ipv4:127.0.0.1:51234", LOCAL),
        ("ipv6:%5B::1%5D:51234", LOCAL),
        ("ipv6:%5B2001:db8::1%5D:51234", "2001:db8::1"),
        ("ipv6:[::ffff:10.0.0.7]:51234", "10.0.0.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:51234", "fe80::1"),
        ("unix:/tmp/socket", LOCAL),
        ("unix:", LOCAL),
        ("", ""),
        ("other", ""),
    ],
)
def test_the_host_of_a_peer_is_its_address_without_port(peer: str, host: str) -> None:
    assert client_host(peer) == host
