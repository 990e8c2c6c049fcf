"""What the members of a measured mesh prove to each other: nothing, who they are by tokens, or by certificates."""

from __future__ import annotations

import datetime
import time
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio

from archon.channel import service_options
from archon.client import Client
from archon.principal import DEFAULT_TENANT, Kind, Principal
from archon.security.certificates import CertificateFolder
from archon.security.credentials import NoCredentials, Tokens
from archon.security.keys import SigningKey, key_set_text
from archon.security.spiffe import SpiffeId
from archon.security.tokens import sign
from archon_services.local_mesh.authority import Authority

MESH = "bench"
KINDS = ("none", "tokens", "tls")
_HOURS = 6


class Security:
    """Keys and certificates of one mesh, of the kind `none`, `tokens` or `tls`, in a folder."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._now = datetime.datetime.now(datetime.UTC)
        if kind == "tokens":
            self._key = SigningKey.generate(MESH)
            self._keys = folder / "keys.json"
            self._keys.write_text(key_set_text([self._key.public], MESH, []))
        elif kind == "tls":
            self._authority = Authority.create(MESH, now=self._now)

    def environment(self, kind: Kind, name: str, tenant: str = DEFAULT_TENANT) -> dict[str, str]:
        """Returns the environment of the process of a member; tenants have tokens."""
        if self.kind == "tokens":
            tokens = ",".join(self.token(kind, name, audience, tenant) for audience in ("services", "agents"))
            return {"ARCHON_KEYS": str(self._keys), "ARCHON_TOKEN": tokens}
        return {"ARCHON_TLS": str(self.certificate(kind, name))} if self.kind == "tls" else {}

    def channel(self, target: str) -> grpc.aio.Channel:
        """Returns a bare channel of a client to the orchestrator."""
        if self.kind != "tls":
            return grpc.aio.insecure_channel(target, options=service_options())
        own = CertificateFolder(self.certificate(Kind.ADMIN, "client")).read()
        credentials = grpc.ssl_channel_credentials(own.authorities, own.key, own.chain)
        name = ("grpc.ssl_target_name_override", f"orchestrator.service.default.{MESH}")
        return grpc.aio.secure_channel(target, credentials, options=[*service_options(), name])

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of its calls."""
        if self.kind != "tokens":
            return ()
        return (("authorization", f"Bearer {self.token(Kind.ADMIN, 'client', 'services')}"),)

    def client(self, target: str, tenant: str = DEFAULT_TENANT) -> Client:
        """Returns a client of the orchestrator; tenants have tokens."""
        if self.kind == "tokens":
            return Client(target, credentials=Tokens(self.token(Kind.ADMIN, "client", "services", tenant)))
        certificate = CertificateFolder(self.certificate(Kind.ADMIN, "client")) if self.kind == "tls" else None
        return Client(target, credentials=NoCredentials(), certificate=certificate)

    def token(self, kind: Kind, name: str, audience: str, tenant: str = DEFAULT_TENANT) -> str:
        """Returns a token of a caller, for `services` or `agents`."""
        now = time.time()
        principal = replace(_principal(kind, name), tenant=tenant, expires=now + _HOURS * 3600)
        return sign(self._key, principal, "agents" if audience == "agents" else "services", now=now)

    def certificate(self, kind: Kind, name: str) -> Path:
        """Returns the folder of the certificate of a member."""
        folder = self._folder / f"{kind}-{name}"
        if not folder.exists():
            self._authority.issue(folder, SpiffeId(MESH, "default", kind, name), now=self._now, days=1)
        return folder


def _principal(kind: Kind, name: str) -> Principal:
    return Principal(kind, name, roles=frozenset({name}) if kind is Kind.AGENT else frozenset())
