"""Addresses of this machine, which no proxy reaches."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine: localhost, a name below it, or a loopback address."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
