"""The OpenID provider of a server: its keys, kept fresh in the background, and the verification of its tokens."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from archon.errors import ArchonError, TokenExpired, TokenInvalid, Unavailable
from archon.principal import Principal
from archon.security.openid.caller import caller_of
from archon.security.openid.endpoints import discover
from archon.security.openid.http import SECONDS, request_json
from archon.security.openid.key_set import ALGORITHMS, ProviderKeys, parsed_keys
from archon.security.openid.settings import OpenIdSettings
from archon.security.tokens import MAX_TOKEN, claims_of

_log = logging.getLogger(__name__)

REFRESH: Final = 300.0
"""Seconds between two looks at the keys of the provider."""

ASK_AGAIN: Final = 10.0
"""Seconds between two looks, at least, that calls with unknown keys ask for."""

KEPT: Final = 86_400.0
"""Seconds for which keys are used while the provider cannot be asked."""

MAX_ASKED: Final = 1_024
"""Ids of unknown keys that are remembered."""

MAX_KEY_ID: Final = 256

_REQUIRED: Final = ["iss", "sub", "aud", "exp"]
_RETRY: Final = 1.0


class Provider:
    """Verifies tokens by keys that `keep_keys` fetches: a call never waits for the provider. `seconds` is the time of
    one request to it."""

    def __init__(self, settings: OpenIdSettings, *, seconds: float = SECONDS) -> None:
        self.settings = settings
        self._seconds = seconds
        self._issuer = ""
        self._keys: ProviderKeys | None = None
        self._fetched = 0.0
        self._tried: float | None = None
        self._fault = "its keys were not fetched yet"
        self._asked: dict[str, float] = {}
        self._wanted = asyncio.Event()
        self.generation = 0
        """Counts the changes of the keys: tokens that were verified by earlier ones are verified again."""

    def issued(self, token: str) -> bool:
        """Returns whether a token says that it is of this provider."""
        try:
            issuer = claims_of(token).get("iss") if len(token) <= MAX_TOKEN else None
        except TokenInvalid:
            return False
        return isinstance(issuer, str) and issuer.rstrip("/") == self.settings.issuer.rstrip("/")

    async def keep_keys(self) -> None:
        """Fetches the keys, and again in intervals, or if a call asks for it. Raises Unavailable if the provider gives
        none; the last ones stay in use."""
        while True:
            await self._fetch()
            await self._next()

    async def _next(self) -> None:
        """Waits until it is time to look again."""
        try:
            async with asyncio.timeout(REFRESH):
                await self._wanted.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(0.0, self._wait()))

    async def _fetch(self) -> None:
        self._tried = time.monotonic()
        self._wanted.clear()
        try:
            endpoints = await discover(self.settings.issuer, seconds=self._seconds)
            if not endpoints.jwks:
                raise Unavailable("it names no jwks_uri")
            began = time.monotonic()
            status, content = await request_json(endpoints.jwks, seconds=self._seconds)
            if status != 200:
                raise Unavailable(f"{endpoints.jwks} answered {status}")
            keys = parsed_keys(content)
        except Unavailable as error:
            self._fault = str(error)
            raise Unavailable(f"the OpenID provider {self.settings.issuer}: {error}") from None
        if self._keys is None or keys.texts != self._keys.texts or endpoints.issuer != self._issuer:
            self.generation += 1
            _log.info("the OpenID provider %s has %d keys for signatures", self.settings.issuer, len(keys.keys))
        self._keys, self._issuer, self._fetched = keys, endpoints.issuer, began
        self._asked = {key_id: asked for key_id, asked in self._asked.items() if began - asked < REFRESH}

    def _wait(self) -> float:
        """Returns the seconds until a call may have the keys fetched again."""
        return 0.0 if self._tried is None else self._tried + ASK_AGAIN - time.monotonic()

    def verify(self, token: str) -> Principal:
        """Returns the caller of a token. Raises TokenInvalid, TokenExpired, PermissionDenied if its groups have no kind
        here, and Unavailable with a delay if its key may become known."""
        import jwt

        if len(token) > MAX_TOKEN:
            raise TokenInvalid(f"the token has more than {MAX_TOKEN} characters")
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, ValueError, RecursionError):
            raise TokenInvalid("the token is not a JSON Web Token") from None
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            raise TokenInvalid(f"the token is not signed by {', '.join(ALGORITHMS)}")
        if self._keys is None or time.monotonic() - self._fetched > KEPT:
            raise Unavailable(
                f"tokens of the OpenID provider {self.settings.issuer} cannot be verified now: {self._fault}",
                metadata={"issuer": self.settings.issuer},
                retry_delay=_RETRY,
            )
        key_id = header.get("kid") or ""
        candidates = self._keys.candidates(key_id, algorithm)
        for key in candidates:
            try:
                claims = self._claims(token, key.public, algorithm)
            except jwt.InvalidSignatureError:
                continue
            return caller_of(claims, token, self.settings)
        if any(key.key_id for key in candidates) and key_id:
            self._wanted.set()  # a few providers give a new key the id of an earlier one
            raise TokenInvalid("the signature of the token is wrong")
        raise self._unknown_key(key_id or hashlib.sha256(token.encode()).hexdigest())

    def _claims(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        """Returns the claims of a token. Raises jwt.InvalidSignatureError if it was signed with another key."""
        import jwt

        try:
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=sorted(self.settings.audiences),
                issuer=self._issuer,
                leeway=self.settings.leeway,
                options={"require": _REQUIRED, "verify_iat": False},
            )
        except jwt.InvalidSignatureError:
            raise
        except jwt.ExpiredSignatureError:
            raise TokenExpired("the token has expired: `archon login` gets another one") from None
        except jwt.ImmatureSignatureError:
            raise TokenInvalid("the token is not valid yet: is the clock of this machine right?") from None
        except jwt.InvalidAudienceError:
            expected = " or ".join(sorted(self.settings.audiences))
            raise TokenInvalid(f"the token is not for this mesh: it accepts the audience {expected}") from None
        except jwt.InvalidIssuerError:
            raise TokenInvalid(f"the token is not of the issuer {self._issuer}") from None
        except (jwt.InvalidTokenError, ValueError, OverflowError, RecursionError):
            raise TokenInvalid("the token is not valid: its claims are wrong") from None

    def _unknown_key(self, key_id: str) -> ArchonError:
        """Has the keys fetched again. Returns TokenInvalid if they were since the key was first asked for, else
        Unavailable."""
        self._wanted.set()
        if len(key_id) > MAX_KEY_ID:
            return TokenInvalid("the id of the token's key is too long")
        asked = self._asked.get(key_id)
        if asked is None:
            if len(self._asked) >= MAX_ASKED:
                del self._asked[next(iter(self._asked))]
            asked = self._asked[key_id] = time.monotonic()
        if self._fetched > asked:
            return TokenInvalid("the token was not signed with a key of its OpenID provider")
        return Unavailable(
            f"the key of the token is not known yet: the OpenID provider {self.settings.issuer} is asked for it",
            metadata={"issuer": self.settings.issuer},
            retry_delay=max(_RETRY, self._wait() + _RETRY),
        )
