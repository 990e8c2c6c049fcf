"""Certificates for the peers and the subject of a run of the scenarios, as a small mesh has them."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from archon.principal import DEFAULT_TENANT, Kind
from archon.security.certificates import AUTHORITY, CERTIFICATE, KEY
from archon.security.spiffe import SpiffeId

MESH: Final = "conformance"
_HOUR: Final = datetime.timedelta(hours=1)


class TestAuthority:
    """An authority that is kept in memory, for an hour. `folder` receives a folder for each member."""

    __test__ = False

    def __init__(self, folder: Path, mesh: str = MESH) -> None:
        self._folder = folder
        self._mesh = mesh
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Archon mesh {mesh}")])
        self._certificate = self._signed(
            self._builder(name, name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{mesh}")]), critical=False
            )
        )

    def issue(self, kind: Kind, name: str) -> Path:
        """Returns the folder of a member's certificate, its key and the certificate of the authority."""
        folder = self._folder / f"{self._mesh}-{kind}-{name}"
        if folder.is_dir():
            return folder
        identity = SpiffeId(self._mesh, DEFAULT_TENANT, kind, name)
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.UniformResourceIdentifier(str(identity)),
            x509.DNSName(identity.dns_name),
            x509.DNSName("localhost"),
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.IPAddress(ipaddress.ip_address("::1")),
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._signed(
            self._builder(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        folder.mkdir(parents=True)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / KEY).write_bytes(private)
        (folder / KEY).chmod(0o600)
        (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
        (folder / AUTHORITY).write_bytes(self._certificate.public_bytes(Encoding.PEM))
        return folder

    def stranger(self) -> TestAuthority:
        """Returns another authority that says it is of the same mesh."""
        return TestAuthority(self._folder / "stranger", self._mesh)

    def _builder(self, subject: x509.Name, issuer: x509.Name, key: Any) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + 24 * _HOUR)
        )

    def _signed(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return builder.sign(self._key, hashes.SHA256())
