"""The certificate of this process for mutual TLS: in a folder with tls.crt, tls.key and ca.crt, the layout of a
secret of cert-manager. Files that were replaced are used from the next connection on."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.errors import CertificateRefused, FailedPrecondition, InvalidArgument
from archon.principal import Kind, Principal
from archon.security.spiffe import SpiffeId

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

VARIABLE: Final = "ARCHON_TLS"
"""The variable with the folder. With it, servers take connections of members of the mesh alone, and clients make none
other."""

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
AUTHORITY: Final = "ca.crt"

_MAX_BYTES: Final = 1024 * 1024

_folders: dict[str, CertificateFolder] = {}
"""The folders that the environment has named in this process."""


@dataclass(frozen=True, slots=True)
class OwnCertificate:
    """The certificate of a member with its chain and its key, and the certificates of the authorities that it trusts,
    all as PEM; `expires` in wall seconds. `other_names` are its names of DNS and its IP addresses beside the name of
    the identity."""

    chain: bytes
    key: bytes
    authorities: bytes
    identity: SpiffeId
    expires: float
    other_names: tuple[str, ...] = ()


class CertificateFolder:
    """The folder of the certificate, which is read again if a file has changed: at most once in `interval` seconds."""

    def __init__(self, folder: Path, *, interval: float = 1.0) -> None:
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # as archon/__init__.py does, for a client without ARCHON_TLS
        self.folder = folder
        self._interval = interval
        self._checked = -interval
        self._stamp: tuple[tuple[int, int, int], ...] | None = None
        self._read: OwnCertificate | None = None

    def read(self) -> OwnCertificate:
        """Returns the certificate. Files that cannot be used leave the last one in force, as while they are being
        replaced; raises FailedPrecondition if there was none."""
        now = time.monotonic()
        if self._read is not None and now - self._checked < self._interval:
            return self._read
        self._checked = now
        try:
            files = [self.folder / name for name in (CERTIFICATE, KEY, AUTHORITY)]
            entries = [os.stat(file) for file in files]
            stamp = tuple((entry.st_mtime_ns, entry.st_size, entry.st_ino) for entry in entries)
            if stamp != self._stamp:
                if any(entry.st_size > _MAX_BYTES for entry in entries):
                    raise FailedPrecondition(f"a file has more than {_MAX_BYTES} bytes")
                self._read = own_certificate(*(file.read_bytes() for file in files))
                self._stamp = stamp
        except (OSError, FailedPrecondition) as error:
            if self._read is None:
                reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)
                raise FailedPrecondition(f"cannot use the certificate in {self.folder}: {reason}") from None
        assert self._read is not None
        return self._read


def own_folder() -> CertificateFolder | None:
    """Returns the folder that the environment names; None if it names none. Raises FailedPrecondition if it has no
    certificate that can be used."""
    if not (path := os.environ.get(VARIABLE, "")):
        return None
    if (folder := _folders.get(path)) is None:
        folder = CertificateFolder(Path(path))
        folder.read()
        _folders[path] = folder
    return folder


def own_certificate(chain: bytes, key: bytes, authorities: bytes) -> OwnCertificate:
    """Checks a certificate, its key and the authorities, as PEM. Raises FailedPrecondition if they do not fit
    together."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    try:
        leaf = x509.load_pem_x509_certificates(chain)[0]
        if not x509.load_pem_x509_certificates(authorities):
            raise ValueError("no authority")
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError, IndexError):
        raise FailedPrecondition(f"{CERTIFICATE}, {KEY} or {AUTHORITY} is not PEM") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise FailedPrecondition(f"{KEY} is not the key of {CERTIFICATE}")
    identity = identity_of(leaf)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    others = [name for name in names.get_values_for_type(x509.DNSName) if name != identity.dns_name]
    others += [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    expires = leaf.not_valid_after_utc.timestamp()
    return OwnCertificate(chain, key, authorities, identity, expires, tuple(others))


def identity_of(certificate: Certificate) -> SpiffeId:
    """Returns the SPIFFE id of a certificate. Raises FailedPrecondition if it has none, or several."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, ValueError):
        uris = []
    if len(uris) != 1:
        raise FailedPrecondition(
            f"the certificate has {len(uris)} URIs, and needs one: spiffe://MESH/ns/TENANT/KIND/NAME"
        )
    try:
        return SpiffeId.parse(uris[0])
    except InvalidArgument as error:
        raise FailedPrecondition(str(error)) from None


def member_of(pem: bytes, mesh: str) -> Principal:
    """Returns the member that a certificate (PEM), which an authority of the mesh has issued, names. Raises
    CertificateRefused if it names none of this mesh."""
    from cryptography import x509

    try:
        certificate = x509.load_pem_x509_certificate(pem)
        identity = identity_of(certificate)
    except (ValueError, FailedPrecondition) as error:
        raise CertificateRefused(f"the certificate of the connection names no member of the mesh: {error}") from None
    if identity.mesh != mesh:
        raise CertificateRefused(f"the certificate of the connection is of the mesh {identity.mesh}, this is {mesh}")
    roles = frozenset({identity.name}) if identity.kind is Kind.AGENT else frozenset[str]()
    return Principal(identity.kind, identity.name, identity.tenant, roles, certificate.not_valid_after_utc.timestamp())
