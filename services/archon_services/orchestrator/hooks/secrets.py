"""Secrets of hooks: made here or given by the sender, and sealed before they are stored."""

from __future__ import annotations

import base64
import binascii
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Final

from archon.errors import FailedPrecondition, FieldViolation, InvalidArgument
from archon_services.common.sealing import Sealer
from archon_services.orchestrator.hooks.hook import Hook, Scheme

PREFIX: Final = "whsec_"
"""Begins the secrets of Standard Webhooks."""

MAX_SECRET: Final = 512
"""Characters of a secret."""

_LEAST: Final = 16
_KEY_BYTES: Final = (16, 128)
_NEW_BYTES: Final = 32


def checked_secret(scheme: Scheme, given: str) -> str:
    """Returns the secret that a caller gives, a new one if it is empty. Raises InvalidArgument if no sender of the
    scheme has such a secret."""
    if not given:
        if scheme in (Scheme.STRIPE, Scheme.SLACK):
            raise _invalid(f"{scheme.name.title()} makes the secret: give the one that it shows")
        new = secrets.token_bytes(_NEW_BYTES)
        return PREFIX + base64.b64encode(new).decode() if scheme is Scheme.STANDARD else new.hex()
    if len(given) > MAX_SECRET or not given.isascii() or not given.isprintable() or given != given.strip():
        raise _invalid(f"expected at most {MAX_SECRET} ASCII characters without blanks around them")
    if scheme is Scheme.STANDARD:
        try:
            size = len(key_of(scheme, given))
        except (ValueError, binascii.Error):
            raise _invalid(f"expected {PREFIX} and a key in base64") from None
        if not _KEY_BYTES[0] <= size <= _KEY_BYTES[1]:
            raise _invalid(f"the key has {size} bytes, expected {_KEY_BYTES[0]} to {_KEY_BYTES[1]}")
    elif len(given) < _LEAST:
        raise _invalid(f"expected at least {_LEAST} characters")
    return given


def key_of(scheme: Scheme, secret: str) -> bytes:
    """Returns the key of the HMAC. Raises ValueError if it is not base64, as the scheme has it."""
    if scheme is Scheme.STANDARD:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    return secret.encode()


class SecretSealer:
    """Seals secrets with the keys of a file, the same for all replicas. The file is read, or made, when it is first
    needed: a mesh without hooks needs none. It is read again if a secret does not open: the file may have another key
    since, with which another replica has sealed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sealer: Sealer | None = None

    def seal(self, tenant: str, uid: str, secret: str) -> str:
        """Returns the sealed secret of a hook. Raises FailedPrecondition if the file cannot be used."""
        return self._keys().seal(_purpose(tenant, uid), secret)

    def open(self, tenant: str, uid: str, sealed: str) -> str:
        """Returns the secret of a hook. Raises FailedPrecondition if this replica lacks the key."""
        secret = self._keys().open(_purpose(tenant, uid), sealed)
        if secret is None:
            secret = self._read_again().open(_purpose(tenant, uid), sealed)
        if secret is None:
            raise FailedPrecondition(
                "the secret of the hook was sealed with another key: give all orchestrators the same ARCHON_HOOK_KEY, "
                "or rotate the secret"
            )
        return secret

    def current(self, hook: Hook) -> str:
        """Returns the secret of a hook. Raises FailedPrecondition as `open`."""
        return self.open(hook.tenant, hook.uid, hook.secret)

    def valid(self, hook: Hook, now: float) -> list[str]:
        """Returns the secrets that are valid now, the current one first. Raises FailedPrecondition as `open`."""
        sealed = [hook.secret, *([hook.previous] if hook.previous and now < hook.previous_until else [])]
        return [self.open(hook.tenant, hook.uid, each) for each in sealed]

    def resealed(self, hook: Hook, now: float) -> Hook:
        """Returns a hook whose secrets are sealed with the first key that the file has now, without one that is not
        valid any more. Raises FailedPrecondition as `open`."""
        self._read_again()
        secrets = [self.seal(hook.tenant, hook.uid, secret) for secret in self.valid(hook, now)]
        return replace(hook, secret=secrets[0], previous=secrets[1] if len(secrets) > 1 else "")

    def _keys(self) -> Sealer:
        return self._sealer or self._read_again()

    def _read_again(self) -> Sealer:
        if self._sealer is None or self._path.exists():  # a file that was taken away is not made anew
            self._sealer = Sealer.from_file(self._path)
        return self._sealer


def _purpose(tenant: str, uid: str) -> str:
    return f"hook {tenant} {uid}"


def _invalid(description: str) -> InvalidArgument:
    return InvalidArgument(f"secret: {description}", field_violations=[FieldViolation("secret", description)])
