"""A certificate authority for a small mesh: it issues the certificates of its members for mutual TLS."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from archon.errors import FailedPrecondition
from archon.private_files import private_folder
from archon.security.certificates import AUTHORITY, CERTIFICATE, KEY
from archon.security.spiffe import SpiffeId
from archon_services.local_mesh.private_replace import replace_file

AUTHORITY_DAYS: Final = 3650
"""Days for which the certificate of the authority is valid."""

MEMBER_DAYS: Final = 90
"""Days for which the certificate of a member is valid unless another time is given."""

_EARLIER: Final = datetime.timedelta(minutes=5)
"""Clocks of machines differ: a certificate is valid from a little before it was issued."""


@dataclass(frozen=True)
class Authority:
    """The certificate of the authority, and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    mesh: str

    @classmethod
    def create(cls, mesh: str, *, now: datetime.datetime) -> Authority:
        """Makes the authority of a mesh."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Archon mesh {mesh}")])
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + datetime.timedelta(days=AUTHORITY_DAYS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"spiffe://{mesh}")]), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key, mesh)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Reads an authority that `store` has written. Raises FailedPrecondition if it is missing or damaged."""
        try:
            certificate = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes())
            key = load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            [uri] = names.get_values_for_type(x509.UniformResourceIdentifier)
        except FileNotFoundError:
            raise FailedPrecondition(f"there is no authority in {folder}: `archon certs init` makes one") from None
        except (OSError, ValueError, TypeError, x509.ExtensionNotFound) as error:
            raise FailedPrecondition(f"cannot use the authority in {folder}: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise FailedPrecondition(f"cannot use the authority in {folder}: its key is not of an elliptic curve")
        return cls(certificate, key, uri.removeprefix("spiffe://"))

    def store(self, folder: Path) -> None:
        """Writes the certificate and the key of the authority to a folder of this user alone."""
        private_folder(folder)
        replace_file(folder / "ca.key", _private_pem(self.key))
        replace_file(folder / AUTHORITY, self.certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        folder: Path,
        identity: SpiffeId,
        *,
        now: datetime.datetime,
        days: float = MEMBER_DAYS,
        names: tuple[str, ...] = (),
    ) -> x509.Certificate:
        """Writes the certificate of a member, its key and the certificate of the authority to a folder; `names` are
        further names of DNS and IP addresses of it. Raises FailedPrecondition if it is of another mesh."""
        if identity.mesh != self.mesh:
            raise FailedPrecondition(f"this authority is of the mesh {self.mesh}, not of {identity.mesh}")
        own: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(str(identity)),
            x509.DNSName(identity.dns_name),
        ]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._store(folder, identity.name[:64], [*own, *map(_general_name, names)], usages, now, days)

    def issue_server(
        self, folder: Path, names: tuple[str, ...], *, now: datetime.datetime, days: float
    ) -> x509.Certificate:
        """Writes the certificate of a server with these names of DNS and IP addresses, its key and the certificate of
        the authority to a folder. It names no member of the mesh."""
        return self._store(
            folder, names[0], list(map(_general_name, names)), [ExtendedKeyUsageOID.SERVER_AUTH], now, days
        )

    def server_expires(self, folder: Path) -> float:
        """Returns the wall seconds at which the certificate of a server ends; 0 if the folder has none of this
        authority, with its key."""
        try:
            leaf = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
            key = load_pem_private_key((folder / KEY).read_bytes(), password=None)
            leaf.verify_directly_issued_by(self.certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return 0.0
        return leaf.not_valid_after_utc.timestamp() if key.public_key() == leaf.public_key() else 0.0

    def _store(
        self,
        folder: Path,
        subject: str,
        names: list[x509.GeneralName],
        usages: list[x509.ObjectIdentifier],
        now: datetime.datetime,
        days: float,
    ) -> x509.Certificate:
        """Issues a certificate, and writes it, its key and the certificate of the authority to a folder."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        private_folder(folder)
        replace_file(folder / KEY, _private_pem(key))
        replace_file(folder / CERTIFICATE, certificate.public_bytes(Encoding.PEM))
        replace_file(folder / AUTHORITY, self.certificate.public_bytes(Encoding.PEM))
        return certificate


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
