"""The key that seals histories, and the public keys that verify their seals: PEM files (RFC 8410)."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.errors import FailedPrecondition
from archon.history.seal import Place, Seal, SealReason, leaf_of, tree_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

VARIABLE: Final = "ARCHON_AUDIT_KEY"
"""The variable with the path of the private key. Without it, histories have links and no seals."""

MAX_BYTES: Final = 1024 * 1024
"""The most bytes of a file of keys."""

_PUBLIC: Final = re.compile(rb"-----BEGIN PUBLIC KEY-----.+?-----END PUBLIC KEY-----\s*", re.S)


@dataclass(frozen=True)
class AuditKey:
    """The private key of an installation for seals."""

    private: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> AuditKey:
        """Makes a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def parse(cls, pem: bytes) -> AuditKey:
        """Reads a key that `pem` has written. Raises FailedPrecondition if it is something else."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(pem, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise FailedPrecondition("it has no private key without a password") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise FailedPrecondition("its key is not of Ed25519")
        return cls(private)

    @classmethod
    def read(cls, path: Path) -> AuditKey:
        """Reads a file of mode 0600. Raises FailedPrecondition if it cannot be read, has no key, or can be read by
        every user of the machine."""
        try:
            mode = path.stat().st_mode
            if mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise FailedPrecondition(f"other users can read it (chmod 600 {path})")
            with path.open("rb") as file:
                return cls.parse(file.read(MAX_BYTES))
        except (OSError, FailedPrecondition) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise FailedPrecondition(f"cannot use the audit key {path}: {reason}") from None

    @property
    def pem(self) -> bytes:
        """The private key in PKCS #8: keep it secret."""
        from cryptography.hazmat.primitives import serialization

        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    @property
    def public_pem(self) -> bytes:
        """The public key in PEM (SubjectPublicKeyInfo)."""
        from cryptography.hazmat.primitives import serialization

        return self.private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @cached_property
    def key_id(self) -> str:
        """The id of the key in its seals, 16 hexadecimal digits."""
        return key_id_of(self.private.public_key())

    def seal(self, chain: str, number: int, link: bytes, time: float, reason: SealReason) -> bytes:
        """Returns the seal of a chain up to the link with this number, as it is stored. `time` is in wall seconds."""
        return self.seal_all([Place(chain, number, link, reason)], time)[0]

    def seal_all(self, places: Sequence[Place], time: float) -> list[bytes]:
        """Returns the seal of each place, as it is stored, all with one signature. There must be one place at least."""
        text, paths = tree_of([leaf_of(place, self.key_id, time) for place in places])
        signature = self.private.sign(text)
        return [
            Seal(self.key_id, time, place.reason, signature, path).encode()
            for place, path in zip(places, paths, strict=True)
        ]


@dataclass(frozen=True)
class PublicKeys:
    """The public keys of an installation by their ids: the one in use, and earlier ones."""

    keys: Mapping[str, Ed25519PublicKey]

    @classmethod
    def parse(cls, pem: bytes) -> PublicKeys:
        """Reads public keys one after the other. Raises FailedPrecondition if there are none, or one is of another
        algorithm."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        keys: dict[str, Ed25519PublicKey] = {}
        for match in _PUBLIC.finditer(pem):
            try:
                key = load_pem_public_key(match[0])
            except (ValueError, UnsupportedAlgorithm):
                raise FailedPrecondition("it has a public key that cannot be read") from None
            if not isinstance(key, Ed25519PublicKey):
                raise FailedPrecondition("it has a public key that is not of Ed25519")
            keys[key_id_of(key)] = key
        if not keys:
            raise FailedPrecondition("it has no public key")
        return cls(keys)

    @classmethod
    def read(cls, path: Path) -> PublicKeys:
        """Reads a file of public keys. Raises FailedPrecondition if it cannot be read or has no key."""
        try:
            with path.open("rb") as file:
                return cls.parse(file.read(MAX_BYTES))
        except (OSError, FailedPrecondition) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise FailedPrecondition(f"cannot use the public keys {path}: {reason}") from None

    @classmethod
    def of(cls, *keys: AuditKey) -> PublicKeys:
        """Returns the public halves of keys."""
        return cls({key.key_id: key.private.public_key() for key in keys})

    def verifies(self, seal: Seal, chain: str, number: int, link: bytes) -> bool:
        """Whether one of these keys has made a seal at this place of a chain."""
        from cryptography.exceptions import InvalidSignature

        key = self.keys.get(seal.key_id)
        if key is None:
            return False
        try:
            key.verify(seal.signature, seal.message(chain, number, link))
        except InvalidSignature:
            return False
        return True

    def names(self) -> Iterable[str]:
        """Returns the ids of the keys."""
        return tuple(self.keys)


def key_id_of(public: Ed25519PublicKey) -> str:
    """Returns the id of a public key: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(public.public_bytes_raw()).hexdigest()[:16]
