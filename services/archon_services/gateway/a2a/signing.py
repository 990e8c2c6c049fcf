"""Signatures of agent cards (JWS, ES256) and the public keys to verify them.

Source: A2A 1.0, section 8.4. The signature covers the card without its signatures, in the canonical form of RFC 8785.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from pathlib import Path
from typing import Any, Final

from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.signing import ProtectedHeader, create_agent_card_signer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from archon.errors import FailedPrecondition

_log = logging.getLogger(__name__)

JWKS_PATH: Final = "/.well-known/jwks.json"
ALGORITHM: Final = "ES256"


class CardKey:
    """The private key that signs the cards, on the curve P-256."""

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        numbers = key.public_key().public_numbers()
        public = {"crv": "P-256", "kty": "EC", "x": _number(numbers.x), "y": _number(numbers.y)}
        digest = hashlib.sha256(json.dumps(public, separators=(",", ":"), sort_keys=True).encode()).digest()
        self.key_id = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        """Thumbprint of the key (RFC 7638)."""
        self.jwks: dict[str, Any] = {"keys": [{**public, "kid": self.key_id, "alg": ALGORITHM, "use": "sig"}]}
        """The public key as a JSON Web Key Set."""

    @classmethod
    def read(cls, file: str) -> CardKey:
        """Returns the key in a PEM file; for an empty name a new one, which no other replica has. Raises
        FailedPrecondition if the file cannot be used, or others may read it."""
        if not file:
            _log.warning("agent cards are signed by a key of this process alone: ARCHON_A2A_KEY names a file for all")
            return cls(ec.generate_private_key(ec.SECP256R1()))
        path = Path(file)
        try:
            if path.stat().st_mode & 0o007:
                raise FailedPrecondition(f"the key of agent cards {file} is open to all users (chmod o-rwx {file})")
            key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise FailedPrecondition(f"the key of agent cards {file} cannot be used: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise FailedPrecondition(f"the key of agent cards {file} is not an ECDSA key on the curve P-256")
        return cls(key)

    def sign(self, card: AgentCard, base_url: str) -> AgentCard:
        """Returns the card with a signature, whose header names the URL of the public key below `base_url`, if that
        is known."""
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        url = base_url + JWKS_PATH if base_url else None
        header = ProtectedHeader(kid=self.key_id, alg=ALGORITHM, jku=url, typ="JOSE")
        return create_agent_card_signer(pem, header)(card)


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes(32, "big")).decode().rstrip("=")
