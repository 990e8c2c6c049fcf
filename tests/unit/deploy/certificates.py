"""Issues certificates as cert-manager does, for tests with real servers."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from archon_services.local_mesh.authority import Authority
from tests.unit.deploy.manifests import Manifest

_USAGES = {"server auth": ExtendedKeyUsageOID.SERVER_AUTH, "client auth": ExtendedKeyUsageOID.CLIENT_AUTH}


def issue(authority: Authority, certificate: Manifest, folder: Path, *addresses: str) -> Path:
    """Writes tls.crt, tls.key and ca.crt of a Certificate to a folder of its secret's name, and returns it. `addresses` are IP
    addresses that the certificate names besides."""
    spec = certificate["spec"]
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(uri) for uri in spec.get("uris", [])]
    names += [x509.DNSName(name) for name in spec["dnsNames"]]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    usages = [_USAGES[usage] for usage in spec["usages"] if usage in _USAGES]
    leaf = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    target = folder / str(spec["secretName"])
    target.mkdir(parents=True)
    (target / "tls.crt").write_bytes(leaf.public_bytes(Encoding.PEM))
    (target / "tls.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (target / "ca.crt").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    return target
