"""The addresses that a page may be read from: hosts are resolved once, and the checked address is dialled."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from archon.errors import NotFound, PermissionDenied, Unavailable
from archon.failure_kinds import TOOL_NETWORK, TOOL_PERMISSION
from archon.threads import on_thread

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Returns the IP addresses of a host and port. Raises socket.gaierror."""

MAX_ADDRESSES: Final = 4
"""Addresses of a host that are tried, in the order of the resolver."""

_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_IPV4_COMPATIBLE: Final = IPv6Network("::/96")
_NAME_UNKNOWN: Final = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


async def resolve_by_system(host: str, port: int) -> list[str]:
    """Resolves a host by the system's resolver, on a thread of its own."""
    infos, error = await on_thread(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), "resolve a host")
    if error is not None:
        raise error
    assert isinstance(infos, list)
    return list(dict.fromkeys(str(info[4][0]) for info in infos))


class AddressPolicy:
    """Refuses addresses that are not public. `allowed` names hosts, or `host:port`, whose addresses are not checked;
    None allows every host."""

    def __init__(self, allowed: Iterable[str] | None, resolve: Resolve = resolve_by_system) -> None:
        self._allowed = None if allowed is None else frozenset(host.lower().rstrip(".") for host in allowed)
        self._resolve = resolve

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """Returns the addresses to dial. Raises PermissionDenied if one of them is not public, NotFound for an unknown
        host, and Unavailable if the resolver fails."""
        try:
            addresses = await self._resolve(host, port)
        except socket.gaierror as error:
            if error.errno in _NAME_UNKNOWN:
                raise NotFound(f"no host {host!r}: the name has no address") from None
            raise Unavailable(f"cannot resolve {host!r}: {error.strerror}", kind=TOOL_NETWORK) from None
        except (UnicodeError, OSError) as error:
            raise NotFound(f"no host {host!r}: {error}") from None
        if not addresses:
            raise NotFound(f"no host {host!r}: the name has no address")
        if not self._is_allowed(host, port):
            for address in addresses:
                if (why := refusal_of(address)) is not None:
                    raise PermissionDenied(f"{host} is not a public address: {why}", kind=TOOL_PERMISSION)
        return addresses[:MAX_ADDRESSES]

    def _is_allowed(self, host: str, port: int) -> bool:
        name = host.lower().rstrip(".")
        return self._allowed is None or name in self._allowed or f"{name}:{port}" in self._allowed


def refusal_of(address: str) -> str | None:
    """Returns why an IP address is not public, or None if it is. An IPv4 address inside of an IPv6 address counts as
    well."""
    try:
        ip = ip_address(address)
    except ValueError:
        return "not an IP address"
    for each in (*_embedded(ip), ip):
        for is_refused, why in (
            (each.is_unspecified, "unspecified"),
            (each.is_loopback, "loopback"),
            (each.is_link_local, "link-local, where clouds serve metadata"),
            (each.is_multicast, "multicast"),
            (each.is_private, "private"),
            (isinstance(each, IPv4Address) and each.is_reserved, "reserved"),
            (not (each.is_global and _is_unicast(each)) and not _embedded(each), "not global"),
        ):
            if is_refused:
                return why
    return None


def _is_unicast(ip: IPv4Address | IPv6Address) -> bool:
    return isinstance(ip, IPv4Address) or ip in _GLOBAL_UNICAST


def _embedded(ip: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that a gateway may turn an IPv6 address into."""
    if isinstance(ip, IPv4Address):
        return []
    found = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
    if ip in _IPV4_COMPATIBLE or any(ip in network for network in _NAT64):
        found.append(IPv4Address(int(ip) & 0xFFFFFFFF))
    return [each for each in found if each is not None]
