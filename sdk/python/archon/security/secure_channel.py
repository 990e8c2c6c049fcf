"""Channels and ports with mutual TLS, whose certificates are renewed without a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

import grpc
import grpc.aio

from archon.security.certificates import CertificateFolder, OwnCertificate
from archon.security.peer import Peer
from archon.security.spiffe import SpiffeId

_in_use: Final[list[grpc.ServerCredentials]] = []
"""The credentials of all ports: gRPC calls them at each handshake, but grpc.aio keeps no reference to them."""

M = TypeVar("M")

Make = Callable[[grpc.ChannelCredentials, Sequence[tuple[str, int | str]]], grpc.aio.Channel]
"""Makes a channel with these credentials and further options."""


def server_credentials(folder: CertificateFolder) -> grpc.ServerCredentials:
    """Returns the credentials of a port that takes members of the mesh alone; a certificate that was replaced counts
    from the next connection on. Raises FailedPrecondition if there is no certificate that can be used."""

    given = folder.read()

    def configuration(own: OwnCertificate) -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(own.key, own.chain)], root_certificates=own.authorities)

    def changed() -> Any:  # None if nothing has, as gRPC documents and its stubs do not
        # gRPC replaces what it has without a lock against other handshakes: only if there is something new.
        nonlocal given
        if (own := folder.read()) is given:
            return None
        given = own
        return configuration(own)

    credentials = grpc.dynamic_ssl_server_credentials(configuration(given), changed, require_client_authentication=True)
    _in_use.append(credentials)
    return credentials


class RenewedChannel(grpc.aio.Channel, Generic[M]):
    """A channel whose certificate is renewed: `read` returns its material now, the same object until that
    changes, and `make` makes the connections, anew after a change, because a channel keeps the certificate that it
    began with. Raises the errors of `read`."""

    def __init__(self, read: Callable[[], M], make: Callable[[M], grpc.aio.Channel]) -> None:
        self._read = read
        self._make = make
        self._made_of = read()
        self._channel = make(self._made_of)
        self._methods: dict[tuple[str, str], Any] = {}
        self._calls: WeakSet[Any] = WeakSet()
        self._earlier: list[tuple[grpc.aio.Channel, WeakSet[Any]]] = []
        """Channels with an earlier certificate, and their calls: one is closed when its last call has ended."""

        self._closing: set[asyncio.Task[None]] = set()

    def _current(self) -> grpc.aio.Channel:
        if (made_of := self._read()) is not self._made_of:
            self._earlier.append((self._channel, self._calls))
            self._channel, self._calls, self._made_of = self._make(made_of), WeakSet(), made_of
            self._methods.clear()
        if self._earlier:
            self._close_idle()
        return self._channel

    def _close_idle(self) -> None:
        for entry in list(self._earlier):
            channel, calls = entry
            if all(call.done() for call in calls):
                self._earlier.remove(entry)
                task = asyncio.ensure_future(channel.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    def _method(self, kind: str, method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        def call(*given: Any, **more: Any) -> Any:
            channel = self._current()
            if (made := self._methods.get((kind, method))) is None:
                made = self._methods[kind, method] = getattr(channel, kind)(method, *arguments, **options)
            made_call = made(*given, **more)
            self._calls.add(made_call)
            return made_call

        return call

    def unary_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._method("unary_unary", method, arguments, options)

    def unary_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._method("unary_stream", method, arguments, options)

    def stream_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._method("stream_unary", method, arguments, options)

    def stream_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        return self._method("stream_stream", method, arguments, options)

    async def __aenter__(self) -> RenewedChannel[M]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        await asyncio.gather(*self._closing, *(channel.close(grace) for channel, _ in self._earlier))
        self._earlier.clear()
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._current().channel_ready()


def secure_channel(own: OwnCertificate, peer: Peer, make: Make) -> grpc.aio.Channel:
    """Returns a channel with the own certificate as it is now, to a peer whose certificate must name it: the peer that
    the caller wants counts, not the address, which may come from a registration. Services are of the default tenant."""
    from archon.principal import DEFAULT_TENANT, Kind

    tenant = DEFAULT_TENANT if peer.kind == "service" else peer.tenant or own.identity.tenant
    expected = SpiffeId(own.identity.mesh, tenant, Kind(peer.kind), peer.name)
    credentials = grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
    return make(credentials, [("grpc.ssl_target_name_override", expected.dns_name)])
