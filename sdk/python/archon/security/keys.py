"""The keys of a mesh: the key that signs its tokens, and the file of the public keys that verify them.

The file of public keys is a JSON Web Key Set (RFC 7517) with two members more: `issuer`, the id of the mesh, and
`revoked`, the ids of tokens that are not accepted any more.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from archon.errors import FailedPrecondition

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

VARIABLE: Final = "ARCHON_KEYS"
"""The variable with the path of the file of public keys. With it, a server refuses calls without a valid token."""

_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True)
class SigningKey:
    """The private key of a mesh with this id."""

    private: Ed25519PrivateKey
    issuer: str

    @classmethod
    def generate(cls, issuer: str) -> SigningKey:
        """Makes a new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate(), issuer)

    @classmethod
    def parse(cls, text: str) -> SigningKey:
        """Reads a key that `text` has written. Raises FailedPrecondition if it is something else."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        try:
            jwk = json.loads(text)
            private = Ed25519PrivateKey.from_private_bytes(_bytes(jwk["d"]))
            return cls(private, str(jwk["issuer"]))
        except (ValueError, KeyError, TypeError):
            raise FailedPrecondition("it has no signing key of a mesh") from None

    @property
    def text(self) -> str:
        """The key as a JSON Web Key with its issuer: keep it secret."""
        return json.dumps({**self.public, "d": _text(self.private.private_bytes_raw()), "issuer": self.issuer})

    @cached_property
    def public(self) -> dict[str, str]:
        """The public key as a JSON Web Key (RFC 8037)."""
        raw = self.private.public_key().public_bytes_raw()
        key_id = hashlib.sha256(raw).hexdigest()[:16]
        return {"kty": "OKP", "crv": "Ed25519", "x": _text(raw), "kid": key_id, "alg": "EdDSA", "use": "sig"}

    @property
    def key_id(self) -> str:
        """The id of the key, which is in the header of its tokens."""
        return self.public["kid"]


@dataclass(frozen=True)
class KeySet:
    """The public keys of a mesh, by id, and the ids of its revoked tokens."""

    issuer: str
    keys: Mapping[str, Ed25519PublicKey]
    revoked: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def parse(cls, text: str) -> KeySet:
        """Reads a key set as JSON. Raises FailedPrecondition if it is no key set, or has no key of Ed25519."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            content: dict[str, Any] = json.loads(text)
            keys = {
                str(jwk["kid"]): Ed25519PublicKey.from_public_bytes(_bytes(jwk["x"]))
                for jwk in content["keys"]
                if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519"
            }
            revoked = frozenset(str(token_id) for token_id in content.get("revoked", ()))
            issuer = str(content["issuer"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise FailedPrecondition("it is not a set of public keys of a mesh") from None
        if not keys:
            raise FailedPrecondition("it has no public key of Ed25519")
        return cls(issuer, keys, revoked)

    def key(self, key_id: str) -> Ed25519PublicKey | None:
        """Returns a key; None if there is none with this id."""
        return self.keys.get(key_id)


def key_set_text(keys: list[dict[str, str]], issuer: str, revoked: list[str]) -> str:
    """Returns a key set as JSON."""
    return json.dumps({"keys": keys, "issuer": issuer, "revoked": revoked}, indent=1)


class KeyFile:
    """A file of public keys, which is read again when it has changed: at most once in `interval` seconds."""

    def __init__(self, path: Path, *, interval: float = 1.0) -> None:
        self.path = path
        self._interval = interval
        self._checked = -interval
        self._stamp: tuple[int, int, int] | None = None
        self._keys: KeySet | None = None
        self._text = ""

    def text(self) -> str:
        """Returns the keys as JSON. Raises FailedPrecondition as `read` does."""
        self.read()
        return self._text

    def read(self) -> KeySet:
        """Returns the keys. A file that has become unreadable leaves the last ones valid; raises FailedPrecondition if
        there were none."""
        now = time.monotonic()
        if self._keys is not None and now - self._checked < self._interval:
            return self._keys
        self._checked = now
        try:
            entry = os.stat(self.path)
            stamp = entry.st_mtime_ns, entry.st_size, entry.st_ino
            if stamp != self._stamp:
                if entry.st_size > _MAX_BYTES:
                    raise FailedPrecondition(f"it has more than {_MAX_BYTES} bytes")
                text = self.path.read_text(encoding="utf-8")
                self._keys, self._text = KeySet.parse(text), text
                self._stamp = stamp
        except (OSError, ValueError, FailedPrecondition) as error:
            if self._keys is None:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise FailedPrecondition(f"cannot use the file of public keys {self.path}: {reason}") from None
        assert self._keys is not None
        return self._keys


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
