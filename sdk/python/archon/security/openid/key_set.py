"""The public keys of an OpenID provider: a JSON Web Key Set (RFC 7517)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import Unavailable

_log = logging.getLogger(__name__)

ALGORITHMS: Final = ("RS256", "PS256", "ES256", "EdDSA")
"""The algorithms of tokens: none, and none with a shared secret, is not among them."""

MAX_KEYS: Final = 64
"""Keys of a set that are used."""

MIN_RSA_BITS: Final = 2_048

_OF_TYPE: Final = {("RSA", ""): ("RS256", "PS256"), ("EC", "P-256"): ("ES256",), ("OKP", "Ed25519"): ("EdDSA",)}


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A public key, its id, empty if it has none, and the algorithms of its signatures."""

    key_id: str
    public: Any
    algorithms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProviderKeys:
    """The keys of a provider that verify signatures."""

    keys: tuple[ProviderKey, ...]
    texts: frozenset[str]
    """The keys as text, by which two sets are compared."""

    def candidates(self, key_id: str, algorithm: str) -> list[ProviderKey]:
        """Returns the keys that may have signed a token: those with its key id, or without one; all if the token has
        none."""
        return [key for key in self.keys if algorithm in key.algorithms and (not key_id or key.key_id in ("", key_id))]


def parsed_keys(content: dict[str, Any]) -> ProviderKeys:
    """Returns the keys of a set; keys that are for something else, or of another type, are left out. Raises Unavailable
    if it is no key set, or none is left."""
    listed = content.get("keys")
    if not isinstance(listed, list):
        raise Unavailable("its answer is no set of keys")
    if len(listed) > MAX_KEYS:
        _log.warning("the OpenID provider has %d keys; the first %d are used", len(listed), MAX_KEYS)
    keys = [key for jwk in listed[:MAX_KEYS] if (key := _key(jwk)) is not None]
    if not keys:
        raise Unavailable(f"it has no key for signatures of {', '.join(ALGORITHMS)}")
    return ProviderKeys(tuple(keys), frozenset(repr(jwk) for jwk in listed[:MAX_KEYS]))


def _key(jwk: Any) -> ProviderKey | None:
    import jwt

    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    operations = jwk.get("key_ops")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    kind = str(jwk.get("kty"))
    algorithms = _OF_TYPE.get((kind, "" if kind == "RSA" else str(jwk.get("crv"))), ())
    if (named := jwk.get("alg")) is not None:
        algorithms = tuple(algorithm for algorithm in algorithms if algorithm == named)
    if not algorithms:
        return None
    try:
        public = jwt.PyJWK(jwk, algorithm=algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
    if kind == "RSA" and public.key_size < MIN_RSA_BITS:
        return None
    return ProviderKey(str(jwk.get("kid") or ""), public, algorithms)
