"""TLS of the HTTP gateway: the certificate that its clients see, from files that are read again when they have changed.

Clients present no certificate: they have tokens or sessions. Uvicorn serves HTTP/1.1 alone, which ALPN says.
"""

from __future__ import annotations

import logging
import os
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from archon.errors import FailedPrecondition
from archon.security.certificates import CERTIFICATE, KEY

if TYPE_CHECKING:
    import grpc

_log = logging.getLogger(__name__)

MINIMUM: Final = ssl.TLSVersion.TLSv1_2
"""The lowest version of TLS that is spoken."""

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2: with forward secrecy and authenticated encryption, as https://ssl-config.mozilla.org has it.
TLS 1.3 has no others."""

PROTOCOLS: Final = ("http/1.1",)

INTERVAL: Final = 1.0
"""Seconds between two looks at the files, at least."""

_in_use: Final[list[grpc.ServerCredentials]] = []
"""gRPC calls credentials at each handshake, and grpc.aio keeps no reference to them."""

Stamp = tuple[tuple[int, int, int], ...]


class ServerCertificate:
    """The certificate in a folder, with its chain in tls.crt and its key in tls.key. Files that were replaced are used
    from the next connection on. Raises FailedPrecondition if they cannot be used."""

    def __init__(self, folder: Path) -> None:
        self._files = folder / CERTIFICATE, folder / KEY
        self._stamp = self._stamped()
        self._loaded = self._load()
        self._checked = time.monotonic()
        self._warned = False
        self.context = self._loaded
        """The context of the listening socket. Each handshake gets the certificate of the files as they are then."""

        self.context.sni_callback = self._shake_hands

    def current(self) -> ssl.SSLContext:
        """Returns a context with the certificate of the files. Files that cannot be used leave the last one in force,
        as while they are being replaced."""
        if time.monotonic() - self._checked < INTERVAL:
            return self._loaded
        self._checked = time.monotonic()
        try:
            if (stamp := self._stamped()) != self._stamp:
                self._loaded, self._stamp = self._load(), stamp
            self._warned = False
        except FailedPrecondition as error:
            if not self._warned:
                _log.warning("%s; the certificate that was read before stays in use", error)
            self._warned = True
        return self._loaded

    def read(self) -> tuple[bytes, bytes]:
        """Returns the key and the chain, as PEM. Raises FailedPrecondition."""
        try:
            return self._files[1].read_bytes(), self._files[0].read_bytes()
        except OSError as error:
            raise self._unusable(error) from None

    def _shake_hands(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        """Called by OpenSSL in each handshake, also of a client that names no server."""
        connection.context = self.current()

    def _stamped(self) -> Stamp:
        try:
            entries = [os.stat(file) for file in self._files]
        except OSError as error:
            raise self._unusable(error) from None
        return tuple((entry.st_mtime_ns, entry.st_size, entry.st_ino) for entry in entries)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = MINIMUM
        context.set_ciphers(CIPHERS)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(list(PROTOCOLS))
        try:
            context.load_cert_chain(*self._files, password="")  # no terminal is asked for one
        except (OSError, ValueError) as error:  # of ssl, too
            raise self._unusable(error) from None
        return context

    def _unusable(self, error: OSError | ValueError) -> FailedPrecondition:
        reason = (getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)).replace("_", " ")
        return FailedPrecondition(f"cannot use the certificate in {self._files[0].parent}: {reason.lower()}")


def grpc_credentials(certificate: ServerCertificate) -> grpc.ServerCredentials:
    """Returns the credentials of a gRPC port with a certificate, which is renewed as on the HTTP port. Raises
    FailedPrecondition."""
    import grpc

    def configuration() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([certificate.read()])

    given = certificate.current()

    def changed() -> Any:  # None if nothing has, as gRPC documents and its stubs do not
        nonlocal given
        if (current := certificate.current()) is given:
            return None
        given = current
        return configuration()

    credentials = grpc.dynamic_ssl_server_credentials(configuration(), changed, require_client_authentication=False)
    _in_use.append(credentials)
    return credentials


def own_certificate(folder: str) -> ServerCertificate | None:
    """Returns the certificate of the setting ARCHON_HTTP_TLS; None if it names no folder. Raises FailedPrecondition if
    it cannot be used."""
    return ServerCertificate(Path(folder)) if folder else None
