"""Verifies who calls a server, and whether it may."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from archon import context
from archon.errors import (
    ArchonError,
    CertificateRefused,
    FailedPrecondition,
    InvalidArgument,
    PermissionDenied,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    TokenRevoked,
    Unavailable,
)
from archon.principal import DEFAULT_TENANT, TENANT, Kind, Principal
from archon.security.certificates import CertificateFolder, OwnCertificate, member_of, own_folder
from archon.security.credentials import IDENTITY_KEY, TENANT_KEY, TOKEN_ONLY_KEY, has_own_token
from archon.security.keys import VARIABLE, KeyFile, KeySet
from archon.security.mesh_folder import ServingFolder
from archon.security.openid.provider import Provider
from archon.security.openid.settings import ISSUER, own_settings
from archon.security.policy import check_allowed
from archon.security.policy_file import VARIABLE as POLICY_FILE
from archon.security.policy_file import own_policy
from archon.security.tokens import Audience, verify

_log = logging.getLogger(__name__)

HEALTH: Final = "/grpc.health.v1.Health/"
"""Methods that anybody may call: a probe of Kubernetes has no token."""

MAX_VERIFIED: Final = 4_096
"""Tokens whose caller is remembered, so that each is verified once."""

REFUSALS_LOGGED: Final = 10
"""Refused calls per minute that are logged; the others are counted."""

_MINUTE: Final = 60.0
_BEARER: Final = "bearer "


Pair = tuple[str, str | bytes]
Connection = Callable[[], Mapping[str, Sequence[bytes]]]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: on behalf of `identity` in `tenant`; `principal` is who has presented the credentials, None on
    a server without keys."""

    tenant: str = DEFAULT_TENANT
    identity: str = context.ANONYMOUS
    principal: Principal | None = None


class Authenticator(Protocol):
    """Says who calls. `method` is the full name of the RPC; `connection` returns the properties of the connection, as
    grpc.aio's `auth_context` does."""

    def caller(self, method: str, metadata: Iterable[Pair], connection: Connection) -> Caller:
        """Returns the caller of a call with this metadata. Raises Unauthenticated if its credentials are missing or
        invalid, PermissionDenied if it is of another tenant than this agent, and Unavailable if the keys or the tenant
        of this server are not known yet."""
        ...

    def check(self, principal: Principal) -> None:
        """Raises TokenRevoked, TokenExpired or CertificateRefused if the credentials of a call in progress are not
        valid any more, and Unavailable if the keys cannot be read."""
        ...

    def allows(self, principal: Principal, method: str) -> bool:
        """Returns whether the policy has the RPC for the kind of this principal; False for an RPC that it does not
        list."""
        ...

    async def keep_keys(self) -> None:
        """Fetches the keys of another issuer before the first call, and again for as long as the server runs. Returns
        at once if the server has no such issuer. Raises Unavailable if the keys cannot be fetched now."""
        ...


class Open:
    """Lets every caller in, as anonymous."""

    def caller(self, method: str, metadata: Iterable[Pair], connection: Connection) -> Caller:
        """Returns an anonymous caller."""
        return Caller()

    def check(self, principal: Principal) -> None:
        """Lets every principal in."""

    def allows(self, principal: Principal, method: str) -> bool:
        """Allows every principal to call every method."""
        return True

    async def keep_keys(self) -> None:
        """Has no keys to renew: returns at once."""


class Keys(Protocol):
    """Where the public keys come from."""

    def read(self) -> KeySet | None:
        """Returns the current keys: the same object until a key or a revocation changes. None if the mesh has none.
        Raises Unavailable if they are not known yet, and FailedPrecondition if their file cannot be used."""
        ...


class MemberAuthenticator:
    """Lets callers in by their token, which is verified once until it expires or the keys change; or without one, by
    the certificate of their connection, if the server has a `certificate` itself. Tokens that say that they are of
    the OpenID `provider` are verified by its keys. An agent lets callers of its own tenant in alone, beside services
    of the mesh: `own_tenant` returns it, empty before it is known. Raises FailedPrecondition if ARCHON_POLICY cannot
    be used."""

    def __init__(
        self,
        keys: Keys,
        audience: Audience,
        certificate: CertificateFolder | None = None,
        provider: Provider | None = None,
        own_tenant: Callable[[], str] | None = None,
    ) -> None:
        self._own_tenant = own_tenant
        self._policy = own_policy()
        self._keys = keys
        self._audience: Audience = audience
        self._certificate = certificate
        self._provider = provider
        self._generation = 0
        self._members: dict[bytes, Principal] = {}
        self._verified: dict[str, Principal] = {}
        self._by: KeySet | None = None
        self._refusals = _Refusals()

    def caller(self, method: str, metadata: Iterable[Pair], connection: Connection) -> Caller:
        """Returns the caller of a call with this metadata."""
        if method.startswith(HEALTH):
            return Caller()
        try:
            keys = self._current_keys()
            fields = {key: value for key, value in metadata if isinstance(value, str)}
            authorization = fields.get("authorization", "")
            token = _bearer(authorization)
            if token and (remembered := self._remembered(token)) is not None:
                principal = remembered
            elif token and self._provider is not None and self._provider.issued(token):
                principal = self._remember(token, self._of_provider(token, keys))
            elif self._certificate is not None and self._names_caller(fields, keys):
                principal = self._member(connection(), self._certificate.read())
            elif keys is None:
                return Caller()
            else:
                principal = self._remember(token, self._own(token, keys))
            check_allowed(method, principal, self._policy)
            self._check_tenant(principal)
            return _caller(fields, principal)
        except ArchonError as error:
            self._refusals.note(method, error)
            raise

    def _names_caller(self, fields: Mapping[str, str], keys: KeySet | None) -> bool:
        """Whether the certificate of the connection says who calls. Raises TokenInvalid for a call that was forwarded
        with a token, if this server verifies no tokens of its issuer."""
        if TOKEN_ONLY_KEY not in fields:
            return keys is None or "authorization" not in fields
        if keys is None:
            raise TokenInvalid(
                f"this service cannot verify the token of the caller: give it the {VARIABLE} or {ISSUER} of the HTTP "
                "gateway"
            )
        return False

    def _check_tenant(self, principal: Principal) -> None:
        """Raises PermissionDenied if this is an agent, and the caller is of another tenant and serves not all."""
        if self._own_tenant is None or principal.is_of_all_tenants:
            return
        if not (tenant := self._own_tenant()):
            raise Unavailable("this agent has not registered yet", retry_delay=1.0)
        if principal.tenant != tenant:
            raise PermissionDenied(
                f"{principal.identity} is of another tenant than this agent",
                metadata={"identity": principal.identity, "kind": principal.kind.value},
            )

    def check(self, principal: Principal) -> None:
        """Raises TokenExpired or TokenRevoked if the token of a call in progress is not valid any more."""
        keys = self._current_keys()
        if keys is not None and principal.token_id in keys.revoked:
            raise TokenRevoked("the token of this call was revoked")
        if time.time() >= principal.expires:
            if not principal.token_id:
                raise CertificateRefused("the certificate of this call has expired")
            raise TokenExpired("the token of this call has expired")

    def allows(self, principal: Principal, method: str) -> bool:
        """Returns whether the policy lets a caller call an RPC."""
        return principal.kind in self._policy.get(method, ())

    async def keep_keys(self) -> None:
        """Fetches the keys of the OpenID provider, if there is one."""
        if self._provider is not None:
            await self._provider.keep_keys()

    def _current_keys(self) -> KeySet | None:
        try:
            keys = self._keys.read()
        except FailedPrecondition as error:
            raise Unavailable(f"no call can be let in: {error}") from None
        if keys is not self._by:  # another key, or a token was revoked
            self._verified.clear()
            self._by = keys
        return keys

    def _member(self, connection: Mapping[str, Sequence[bytes]], own: OwnCertificate) -> Principal:
        """Returns the caller that the certificate of a connection names."""
        [pem] = connection.get("x509_pem_cert", (b"",))
        principal = self._members.get(pem)
        if principal is None:
            principal = member_of(pem, own.identity.mesh)
            if len(self._members) >= MAX_VERIFIED:
                self._members.clear()
            self._members[pem] = principal
        if time.time() >= principal.expires:
            raise CertificateRefused("the certificate of the connection has expired")
        return principal

    def _own(self, token: str, keys: KeySet) -> Principal:
        """Returns the caller of a token of the mesh."""
        if not token:
            raise TokenMissing(
                f"this member of the mesh {keys.issuer} needs a token: `archon token`, in the folder of the mesh, "
                'prints one; set ARCHON_TOKEN to it, or the metadata "authorization" to "Bearer TOKEN"'
            )
        return verify(token, keys, self._audience)

    def _of_provider(self, token: str, keys: KeySet | None) -> Principal:
        """Returns the caller of a token of the OpenID provider, which a mesh can revoke as its own."""
        assert self._provider is not None
        principal = self._provider.verify(token)
        if keys is not None and principal.token_id in keys.revoked:
            raise TokenRevoked("the token was revoked in this mesh")
        return principal

    def _remembered(self, token: str) -> Principal | None:
        """Returns the caller of a token that was verified before. Raises TokenExpired."""
        if self._provider is not None and self._provider.generation != self._generation:
            self._verified.clear()
            self._generation = self._provider.generation
        principal = self._verified.get(token)
        if principal is not None and time.time() >= principal.expires:
            del self._verified[token]
            raise TokenExpired("the token has expired")
        return principal

    def _remember(self, token: str, principal: Principal) -> Principal:
        if len(self._verified) >= MAX_VERIFIED:
            self._verified.clear()
        self._verified[token] = principal
        return principal


def _bearer(authorization: str) -> str:
    """Returns the token of a header; empty if it has none."""
    return authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else ""


def _caller(fields: Mapping[str, str], principal: Principal) -> Caller:
    """Returns on whose behalf a call is made: an agent calls on its own behalf, for any run."""
    name = fields.get(IDENTITY_KEY, principal.identity)
    tenant = fields.get(TENANT_KEY, principal.tenant) if principal.may_act_for_others else principal.tenant
    if principal.kind is Kind.AGENT or (name == principal.identity and tenant == principal.tenant):
        return Caller(principal.tenant, principal.identity, principal)
    if not principal.may_act_in(tenant):
        raise PermissionDenied(
            f"{principal.identity} of the tenant {principal.tenant} may not call in another tenant",
            metadata={"identity": principal.identity, "kind": principal.kind.value},
        )
    if not TENANT.fullmatch(tenant):
        raise InvalidArgument(f"the metadata {TENANT_KEY} has no name of a tenant")
    if not principal.may_act_for_others:
        raise PermissionDenied(
            f"{principal.identity} is of kind {principal.kind} and may not call as {name!r}",
            metadata={"identity": principal.identity, "kind": principal.kind.value},
        )
    return Caller(tenant, name, principal)


class _Refusals:
    """Logs refused calls: a few in each minute, and the number of the others."""

    def __init__(self) -> None:
        self._until = -math.inf
        self._count = 0

    def note(self, method: str, error: ArchonError) -> None:
        now = time.monotonic()
        if now >= self._until:
            if self._count > REFUSALS_LOGGED:
                _log.warning("refused %d further calls in a minute", self._count - REFUSALS_LOGGED)
            self._until, self._count = now + _MINUTE, 0
        self._count += 1
        if self._count <= REFUSALS_LOGGED:
            _log.warning("refused a call of %s: %s", method.rpartition("/")[2], error)


class LearntKeys:
    """The keys of an agent: from the folder of its mesh on this machine, else from the registry.

    An agent with a token refuses every caller before it knows the keys; one without a token lets every caller in, as
    its mesh does."""

    def __init__(self, registry: str) -> None:
        self._registry = registry
        self._folder = ServingFolder(registry) if registry else None
        self._file: KeyFile | None = None
        self._told: KeySet | None = None
        self._tenant = ""

    def tell(self, keys_json: str, tenant: str) -> None:
        """Takes in the answer of the registry: a key set as JSON, empty if it has none, and the agent's tenant."""
        self._tenant = tenant or DEFAULT_TENANT
        if keys_json:
            try:
                self._told = KeySet.parse(keys_json)
            except FailedPrecondition as error:
                _log.warning("the keys that the registry has sent are not used: %s", error)

    def tenant(self) -> str:
        """Returns the tenant of the agent; empty before the first answer."""
        return self._tenant

    def read(self) -> KeySet | None:
        """Returns the keys; None if the mesh has none."""
        if self._file is None and self._folder is not None and (folder := self._folder.find()) is not None:
            self._file = KeyFile(folder.keys_file) if folder.keys_file.exists() else None
        if self._file is not None:
            return self._file.read()
        if self._told is None and self._registry and has_own_token():
            raise Unavailable("this agent has not registered yet", retry_delay=1.0)
        return self._told


def own_key_file() -> KeyFile | None:
    """Returns the file of public keys that the environment names (ARCHON_KEYS); None if it names none. Raises
    FailedPrecondition if that file cannot be used."""
    if not (path := os.environ.get(VARIABLE, "")):
        return None
    file = KeyFile(Path(path))
    file.read()
    return file


class NoKeys:
    """Keys of a mesh that has none: its members have certificates."""

    def read(self) -> KeySet | None:
        """Returns None: a token is never valid here."""
        return None


def own_authenticator(audience: Audience = "services", own_tenant: Callable[[], str] | None = None) -> Authenticator:
    """Returns the authenticator of a server, by the environment: with ARCHON_KEYS it takes tokens, with ARCHON_TLS
    certificates, and for services with ARCHON_OIDC_ISSUER tokens of an OpenID provider too. `own_tenant` as in
    MemberAuthenticator. Raises FailedPrecondition if they cannot be used."""
    file, certificate = own_key_file(), own_folder()
    settings = own_settings() if audience == "services" else None
    if file is None and certificate is None:
        if settings is not None:
            raise FailedPrecondition(
                f"{ISSUER} needs {VARIABLE} or ARCHON_TLS: an OpenID provider says who people are, agents and services "
                "prove it by those"
            )
        if os.environ.get(POLICY_FILE, ""):
            raise FailedPrecondition(
                f"{POLICY_FILE} needs {VARIABLE} or ARCHON_TLS: without them every caller is let in"
            )
        return Open()
    provider = None if settings is None else Provider(settings)
    return MemberAuthenticator(NoKeys() if file is None else file, audience, certificate, provider, own_tenant)


def agent_authenticator(registry: str) -> tuple[Authenticator, LearntKeys]:
    """Returns the authenticator of an agent that registers at `registry` (host:port; empty: nowhere), and the keys that
    need the answers of the registry, which are not used if it has a file of keys."""
    keys = LearntKeys(registry)
    own_tenant = keys.tenant if registry else None
    if os.environ.get(VARIABLE, ""):
        return own_authenticator("agents", own_tenant), keys
    return MemberAuthenticator(keys, "agents", own_folder(), own_tenant=own_tenant), keys
