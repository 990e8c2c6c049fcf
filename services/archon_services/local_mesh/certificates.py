"""Issues the certificates of a mesh on this machine, whose connections are encrypted: for each of its processes, and
for the user who has started it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.errors import FailedPrecondition
from archon.principal import Principal
from archon.security.certificates import CertificateFolder
from archon.security.spiffe import SpiffeId
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.options import GATEWAY
from archon_services.local_mesh.tokens import user

if TYPE_CHECKING:
    from archon_services.local_mesh.authority import Authority

DAYS: Final = 7.0
"""Days for which a certificate is valid; it is renewed long before."""

LOOPBACK: Final = ("127.0.0.1", "::1")
"""Addresses that the certificate of the HTTP gateway names."""

_RENEW_LEFT: Final = DAYS * 2 / 3 * 86_400


class CertificateIssuer:
    """The authority of the mesh in a folder, which is made at the first use."""

    def __init__(self, home: Home, *, now: Callable[[], datetime.datetime] | None = None) -> None:
        self._home = home
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC))

    def issue(self, processes: Iterable[tuple[str, Principal]]) -> None:
        """Writes the certificates of the user and of these processes, as far as they need new ones. Raises
        FailedPrecondition if the authority cannot be used."""
        from archon_services.local_mesh.authority import Authority  # 30 ms, of meshes with TLS alone

        folder = self._home.tls / "authority"
        if not (folder / "ca.key").exists():
            Authority.create(self._home.mesh_id(), now=self._now()).store(folder)
        authority = Authority.load(folder)
        self._write(authority, self._home.folder.user_certificate, user())
        for name, principal in processes:
            self._write(authority, self._home.certificate(name), principal)
            if name == GATEWAY:
                self._write_https(authority, self._home.https_certificate)

    def _write_https(self, authority: Authority, folder: Path) -> None:
        """Writes the certificate that clients of the HTTP gateway see. It names this machine, and no member."""
        now = self._now()
        if not _RENEW_LEFT < authority.server_expires(folder) - now.timestamp() <= DAYS * 86_400:
            authority.issue_server(folder, ("localhost", *LOOPBACK), now=now, days=DAYS)

    def _write(self, authority: Authority, folder: Path, principal: Principal) -> None:
        identity = SpiffeId(authority.mesh, principal.tenant, principal.kind, principal.name)
        try:
            own = CertificateFolder(folder).read()
            left = own.expires - self._now().timestamp()
            if own.identity == identity and _RENEW_LEFT < left <= DAYS * 86_400:
                return
        except FailedPrecondition:
            pass
        authority.issue(folder, identity, now=self._now(), days=DAYS)
