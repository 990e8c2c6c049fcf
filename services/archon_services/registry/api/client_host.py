"""The host of a client, by which the registry counts the instances of each client."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import unquote

LOCAL: Final = "localhost"
"""The host of every client on this machine."""


def client_host(peer: str) -> str:
    """Returns the host of a gRPC peer such as `ipv4:10.0.0.7:51234` or `ipv6:%5B::1%5D:51234`: its IP address, or LOCAL
    for loopback addresses and Unix sockets. Clients behind one proxy or NAT have one host. Returns an empty text for
    any other kind of peer."""
    kind, _, address = unquote(peer).partition(":")
    if kind == "unix":
        return LOCAL
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        parsed = ipaddress.ip_address(host)
    except ValueError:
        return ""
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return LOCAL if parsed.is_loopback else str(parsed)
