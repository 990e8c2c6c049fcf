"""Issues the tokens of a mesh on this machine: for each of its processes, and for the user who has started it."""

from __future__ import annotations

import getpass
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from archon.errors import FailedPrecondition
from archon.principal import Kind, Principal
from archon.private_files import private_folder
from archon.security.keys import KeySet, SigningKey, key_set_text
from archon.security.tokens import Audience, sign
from archon_services.gateway.identity.share_link import link_principal
from archon_services.local_mesh.home import Home
from archon_services.local_mesh.private_replace import replace_file

LIFETIME: Final = 24 * 3600.0
"""Seconds for which the tokens of processes and of the user are valid; they are renewed long before."""

RENEW_INTERVAL: Final = 5.0
"""Seconds between two looks at the tokens: the wall clock may have been set."""

MAX_REVOKED: Final = 10_000
"""Ids of revoked tokens that are kept."""

_RENEW_AFTER: Final = LIFETIME / 3
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._@-]")


class TokenIssuer:
    """The key of the mesh in a folder, with which its tokens are signed. `now` returns wall seconds.

    Without a key, `prepare` makes one. Raises FailedPrecondition if the files of the keys are damaged.
    """

    def __init__(self, home: Home, *, now: Callable[[], float] = time.time) -> None:
        self._home = home
        self._now = now
        self._key: SigningKey | None = None

    @property
    def key(self) -> SigningKey:
        """The signing key. Raises FailedPrecondition if the folder has none: no mesh was ever started there."""
        if self._key is None:
            try:
                self._key = SigningKey.parse(self._home.signing_key.read_text())
            except FileNotFoundError:
                raise FailedPrecondition(
                    f"no mesh was started in {self._home.root} yet: there is no key to sign a token with "
                    "(`archon token init` makes one)"
                ) from None
            except (OSError, ValueError, FailedPrecondition) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise FailedPrecondition(f"cannot use {self._home.signing_key}: {reason}") from None
        return self._key

    def prepare(self) -> None:
        """Makes the keys of the mesh, unless there are some."""
        if not self._home.signing_key.exists():
            self._new_key()
        elif not self._home.folder.keys_file.exists():
            self._write_keys([])
        _ = self.key, self._revoked()

    def rotate(self) -> None:
        """Replaces the key: every token that was issued before is refused."""
        self._new_key()

    def _new_key(self) -> None:
        self._key = SigningKey.generate(self._home.mesh_id())
        replace_file(self._home.signing_key, f"{self._key.text}\n".encode())
        self._write_keys([])

    def revoke(self, token_id: str) -> None:
        """Has the members of the mesh refuse a token, within about two seconds."""
        revoked = [earlier for earlier in self._revoked() if earlier != token_id]
        self._write_keys([*revoked, token_id][-MAX_REVOKED:])

    def _revoked(self) -> list[str]:
        """Returns the ids of revoked tokens, the one that was revoked last at the end."""
        file = self._home.folder.keys_file
        try:
            text = file.read_text()
            known = KeySet.parse(text).revoked
            return [token_id for each in json.loads(text).get("revoked", ()) if (token_id := str(each)) in known]
        except (OSError, ValueError, FailedPrecondition) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise FailedPrecondition(f"cannot use {file}: {reason}") from None

    def _write_keys(self, revoked: list[str]) -> None:
        replace_file(
            self._home.folder.keys_file, f"{key_set_text([self.key.public], self.key.issuer, revoked)}\n".encode()
        )

    def token(self, principal: Principal, audience: Audience = "services", *, lifetime: float = LIFETIME) -> str:
        """Returns a token for a caller, which is valid for `lifetime` seconds."""
        now = self._now()
        return sign(self.key, replace(principal, expires=now + lifetime), audience, now=now)

    def share(self, run_id: str, tenant: str, *, lifetime: float) -> str:
        """Returns the token of a read-only link to a run, which is valid for `lifetime` seconds."""
        return self.token(link_principal(run_id, user().name, tenant, 0.0), "shares", lifetime=lifetime)

    def write(self, file: Path, callers: Mapping[Audience, Principal]) -> None:
        """Writes the tokens of a caller to a file, one for each audience, unless it has some that are young and of this
        key."""
        marker = file.with_name(f".{file.name}.issued")
        key_id, now = self.key.key_id, self._now()
        try:
            issued_by, _, issued_at = marker.read_text().partition(" ")
            if file.exists() and issued_by == key_id and 0 <= now - float(issued_at) < _RENEW_AFTER:
                return
        except (OSError, ValueError):
            pass
        tokens = [self.token(principal, audience) for audience, principal in callers.items()]
        private_folder(file.parent)
        replace_file(file, "\n".join([*tokens, ""]).encode())
        replace_file(marker, f"{key_id} {now}\n".encode())

    def forget_key(self) -> None:
        """Reads the key again at its next use."""
        self._key = None

    def issue(self, processes: Iterable[tuple[str, Principal]]) -> None:
        """Writes the tokens of the user and of these processes, as far as they need new ones."""
        # What others have registered as an agent may be any program: it gets no token of an admin.
        own: dict[Audience, Principal] = {"services": user(), "agents": replace(user(), kind=Kind.OPERATOR)}
        self.write(self._home.folder.token_file, own)
        for name, principal in processes:
            self.write(self._home.process_token(name), {"services": principal, "agents": principal})


def user() -> Principal:
    """Returns the user of this process, who may do everything in a mesh of its own."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # of a container that knows no such user
        name = f"user-{os.getuid()}"
    return Principal(Kind.ADMIN, _NOT_IN_NAMES.sub("-", name) or "user")
