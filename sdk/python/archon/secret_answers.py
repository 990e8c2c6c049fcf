"""Secret answers of people, encrypted for the attempt that asks: no journal, record or watcher of the run has them.

The encryption is HPKE in base mode (RFC 9180) with X25519, HKDF-SHA256, AES-128-GCM and INFO. An answer is PREFIX and
the base64 of the encapsulated key and the ciphertext. The public key is in the JSON Schema of the question, under
PUBLIC_KEY, as base64 of its 32 bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final

from archon.errors import InvalidArgument
from archon.json_text import json_object

INFO: Final = b"archon secret answer v1"
PREFIX: Final = "sealed:"
PUBLIC_KEY: Final = "x-archon-public-key"
MAX_SECRET: Final = 64 * 1024
"""Bytes of a secret answer."""


class SecretQuestion:
    """A question whose answer only this object can read."""

    def __init__(self) -> None:
        # Imported here, because few tasks ask for a secret.
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._key = X25519PrivateKey.generate()

    @property
    def schema_json(self) -> str:
        """The JSON Schema of the answer. It accepts no answer that is not encrypted."""
        key = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        schema = {"type": "string", "pattern": f"^{PREFIX}[A-Za-z0-9+/]+=*$", "writeOnly": True, PUBLIC_KEY: key}
        return json.dumps(schema)

    def open(self, answer: str) -> str:
        """Returns the text of an answer. Raises InvalidArgument if it was not encrypted for this question."""
        from cryptography.exceptions import InvalidTag

        try:
            if not answer.startswith(PREFIX):
                raise ValueError
            sealed = base64.b64decode(answer.removeprefix(PREFIX), validate=True)
            secret: bytes = _suite().decrypt(sealed, self._key, info=INFO)
            return secret.decode()
        except (ValueError, InvalidTag, binascii.Error):
            raise InvalidArgument("the answer was not encrypted for this question") from None


def is_secret(schema_json: str) -> bool:
    """Whether the answer to a question with this JSON Schema has to be encrypted."""
    return bool(_public_key(schema_json))


def seal(schema_json: str, answer: str) -> str:
    """Encrypts an answer for the question with this JSON Schema.

    Raises InvalidArgument if the schema has no valid public key, or the answer is empty or above MAX_SECRET bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    secret = answer.encode()
    if not 0 < len(secret) <= MAX_SECRET:
        raise InvalidArgument(f"a secret answer has 1 to {MAX_SECRET:,} bytes, not {len(secret):,}")
    try:
        key = X25519PublicKey.from_public_bytes(base64.b64decode(_public_key(schema_json), validate=True))
        sealed = _suite().encrypt(secret, key, info=INFO)
    except ValueError:
        raise InvalidArgument("the question has no valid public key to encrypt the answer with") from None
    return PREFIX + base64.b64encode(sealed).decode()


def _public_key(schema_json: str) -> str:
    key = (json_object(schema_json) or {}).get(PUBLIC_KEY)
    return key if isinstance(key, str) else ""


def _suite() -> Any:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
