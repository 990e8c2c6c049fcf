"""The tokens that this process presents: from ARCHON_TOKEN or ARCHON_TOKEN_FILE, else from the folder of the mesh on
this machine that has a service at the address of the call."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from archon import context
from archon.errors import TokenInvalid
from archon.principal import ACT_FOR_OTHERS, DEFAULT_TENANT
from archon.security.certificates import CertificateFolder
from archon.security.mesh_folder import ServingFolder
from archon.security.tokens import Audience, claims_of

_log = logging.getLogger(__name__)

TOKEN: Final = "ARCHON_TOKEN"
TOKEN_FILE: Final = "ARCHON_TOKEN_FILE"

TENANT_KEY: Final = "archon-tenant"
IDENTITY_KEY: Final = "archon-identity"

TOKEN_ONLY_KEY: Final = "archon-token-only"
"""Metadata of a call that an HTTP gateway forwards: its caller is the one of the token, and the certificate of the
connection, which is the gateway's, lets no caller in."""

INSTANCE_KEY: Final = "archon-instance"
"""The instance_id of the attached agent that a call to an orchestrator is for."""

Metadata = tuple[tuple[str, str], ...]

_INTERVAL: Final = 1.0
"""Seconds between two looks at a file: its token was renewed if it has changed."""

_reported: Final[set[Path]] = set()
"""Files of variables that could not be read, and were logged."""

_SEPARATOR: Final = re.compile(r"[\s,]+")


class Credentials(Protocol):
    """The source of the credentials of a channel's calls."""

    def metadata(self) -> Metadata:
        """Returns the metadata of a call made now: a token, and on whose behalf it is made."""
        ...


chosen: list[Callable[[str, Audience], Credentials | None]] = []
"""Functions of the program that choose credentials of calls to an address, before a folder is searched."""


class NoCredentials:
    """Presents nothing."""

    def metadata(self) -> Metadata:
        """Returns no metadata."""
        return ()


class Tokens:
    """Presents the token that is for `audience`, of a text or a file of tokens; and if it is of a kind that may act
    for others, the identity and the tenant on whose behalf a call is made. Raises TokenInvalid if a part of the text
    is no token."""

    def __init__(self, source: str | TokenFile, audience: Audience = "services") -> None:
        self._source = source if isinstance(source, TokenFile) else tokens_in(source)
        self._audience: Audience = audience

    def metadata(self) -> Metadata:
        """Returns the token, and the identity of the call being served."""
        tokens = self._source.read() if isinstance(self._source, TokenFile) else self._source
        token = tokens.get(self._audience)
        if token is None:
            return ()
        return (*token.metadata, *_on_behalf()) if token.may_act_for_others else token.metadata


class Certified:
    """Presents the credentials `more`; if those are none, the certificate of the connection speaks for the caller, and
    says whether its kind may act for others."""

    def __init__(self, certificate: CertificateFolder, more: Credentials) -> None:
        self._certificate = certificate
        self._more = more

    def metadata(self) -> Metadata:
        """Returns the metadata of `more`, or else on whose behalf a call is made."""
        if presented := self._more.metadata():
            return presented
        return _on_behalf() if self._certificate.read().identity.kind in ACT_FOR_OTHERS else ()


class Relayed:
    """Presents the credentials `more`, and names the attached agent that calls are relayed to."""

    def __init__(self, more: Credentials, instance_id: str) -> None:
        self._more = more
        self._instance_id = instance_id

    def metadata(self) -> Metadata:
        """Returns the metadata of `more`, and the instance_id of the agent."""
        return (*self._more.metadata(), (INSTANCE_KEY, self._instance_id))


def _on_behalf() -> Metadata:
    """Returns on whose behalf a call is made now: the identity and the tenant of the call being served."""
    call = context.current()
    if call.identity != context.ANONYMOUS:
        return (TENANT_KEY, call.tenant), (IDENTITY_KEY, call.identity)
    return () if call.tenant == DEFAULT_TENANT else ((TENANT_KEY, call.tenant),)


@dataclass(frozen=True, slots=True)
class Token:
    """A token to present: its metadata, and whether its kind may act for others."""

    metadata: Metadata
    may_act_for_others: bool


class TokenFile:
    """A file of tokens, one for each audience, which is read again when it has changed. With the `variable` that names
    it, a file that cannot be read is logged once: it may be there later."""

    def __init__(self, path: Path, variable: str = "") -> None:
        self._path = path
        self._variable = variable
        self._checked = -_INTERVAL
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: Mapping[Audience, Token] = {}

    def read(self) -> Mapping[Audience, Token]:
        """Returns the tokens by audience; the last ones if the file cannot be read now. Raises TokenInvalid if it has
        something else."""
        now = time.monotonic()
        if now - self._checked >= _INTERVAL:
            self._checked = now
            try:
                entry = os.stat(self._path)
                stamp = entry.st_mtime_ns, entry.st_size, entry.st_ino
                if stamp != self._stamp:
                    self._tokens, self._stamp = tokens_in(self._path.read_text()), stamp
            except (OSError, ValueError) as error:
                self._unreadable(error)
            except TokenInvalid:
                raise TokenInvalid(f"{self._path} has no token: it is not a JSON Web Token") from None
        return self._tokens

    def _unreadable(self, error: Exception) -> None:
        if not self._variable or self._path in _reported:
            return
        _reported.add(self._path)
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        meanwhile = "the tokens read before" if self._tokens else "no token"
        _log.warning("%s is %s, which cannot be read (%s): calls carry %s", self._variable, self._path, why, meanwhile)


class FoundTokens:
    """Presents the user's token of the mesh on this machine that has a service at `target`, once there is one."""

    def __init__(self, target: str, audience: Audience) -> None:
        self._folder = ServingFolder(target)
        self._audience: Audience = audience
        self._tokens: Tokens | None = None

    def metadata(self) -> Metadata:
        """Returns the token, and the identity of the call being served."""
        if self._tokens is None and (folder := self._folder.find()) is not None:
            self._tokens = Tokens(TokenFile(folder.token_file), self._audience)
        return self._tokens.metadata() if self._tokens is not None else ()


def credentials_for(target: str, audience: Audience) -> Credentials:
    """Returns the credentials of calls, by the environment of this process: to the service at `target` (host:port),
    or to the agents of its mesh. Raises TokenInvalid if ARCHON_TOKEN is no token."""
    if text := os.environ.get(TOKEN, ""):
        try:
            return Tokens(text, audience)
        except TokenInvalid:
            raise TokenInvalid(f"{TOKEN} has no token: it is not a JSON Web Token") from None
    if path := os.environ.get(TOKEN_FILE, ""):
        return Tokens(TokenFile(Path(path), TOKEN_FILE), audience)
    for choose in chosen:
        if (credentials := choose(target, audience)) is not None:
            return credentials
    return FoundTokens(target, audience)


def has_own_token() -> bool:
    """Returns whether the environment gives this process a token."""
    return bool(os.environ.get(TOKEN) or os.environ.get(TOKEN_FILE))


def tokens_in(text: str) -> dict[Audience, Token]:
    """Returns the tokens of a text, separated by commas or white space, by their audience. Raises TokenInvalid if a
    part is no token."""
    tokens: dict[Audience, Token] = {}
    for token in _SEPARATOR.split(text.strip()):
        if token:
            claims = claims_of(token)
            presented = Token((("authorization", f"Bearer {token}"),), claims.get("kind") in ACT_FOR_OTHERS)
            tokens["agents" if claims.get("aud") == "agents" else "services"] = presented
    return tokens
