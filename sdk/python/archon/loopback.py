"""Addresses of this machine, which no proxy reaches. In host:port the host of IPv6 is in brackets: [::1]:7100."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from functools import cache
from typing import Final

IPV4: Final = "127.0.0.1"
IPV6: Final = "[::1]"

_WITH_PORT: Final = re.compile(r"(\[[^\]]*\]|[^:]*):[^:]*")


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine: localhost, a name below it, or a loopback address."""
    host = host.strip("[]").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def loopback_host() -> str:
    """Returns the loopback address of this machine, for host:port: IPV4, or IPV6 if the machine has that alone."""
    return IPV6 if _is_missing(IPV4) and not _is_missing(IPV6) else IPV4


def is_free(host: str, port: int) -> bool:
    """Returns whether a server could listen on a port of an IP address now, on any port if it is 0."""
    return _bind(host, port) is None


def _is_missing(host: str) -> bool:
    """Returns whether this machine lacks an IP address; the ports of one that it has may be in use."""
    error = _bind(host, 0)
    return error is not None and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def _bind(host: str, port: int) -> OSError | None:
    """Returns the error with which a server could not listen now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host.strip("[]"), port))
    except OSError as error:
        return error
    return None


def with_port(host: str, port: int) -> str:
    """Returns host:port; an address of IPv6 gets its brackets."""
    return f"[{host}]:{port}" if host.count(":") > 1 and not host.startswith("[") else f"{host}:{port}"


def has_port(address: str) -> bool:
    """Returns whether an address is host:port, and not a host alone."""
    return _WITH_PORT.fullmatch(address) is not None
