"""Servers and channels of the peers, in clear text or with the certificate of a member."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from archon.channel import agent_options, server_options
from archon.conformance.certificates import TestAuthority
from archon.loopback import with_port
from archon.principal import Kind
from archon.security.certificates import CertificateFolder
from archon.security.peer import agent
from archon.security.secure_channel import secure_channel, server_credentials


class Place:
    """Where peers listen: in clear text, or with mutual TLS by certificates of `authority`."""

    def __init__(self, authority: TestAuthority | None, host: str = "127.0.0.1") -> None:
        self._authority = authority
        self.host = host
        self._folders: dict[str, CertificateFolder] = {}

    def environment(self, kind: Kind, name: str) -> dict[str, str]:
        """Returns the settings with which a subject uses its certificate."""
        return {} if self._authority is None else {"ARCHON_TLS": str(self._issue(kind, name))}

    def _issue(self, kind: Kind, name: str) -> Path:
        assert self._authority is not None
        return self._authority.issue(kind, name)

    def _folder(self, name: str, kind: Kind = Kind.SERVICE) -> CertificateFolder:
        if name not in self._folders:
            self._folders[name] = CertificateFolder(self._issue(kind, name))
        return self._folders[name]

    async def serve(
        self,
        name: str,
        add: Callable[[grpc.aio.Server], None],
        port: int = 0,
        *,
        guise: str = "",
        kind: Kind = Kind.SERVICE,
    ) -> tuple[Any, int]:
        """Serves as the service `name` of the mesh, or as an agent of this role. Returns the server and its port. With
        the `guise` of a `stranger` it has a certificate of another authority, with an `impostor`'s the certificate of
        another member."""
        server = grpc.aio.server(options=server_options())
        add(server)
        wanted = with_port(self.host, port)
        if self._authority is None:
            bound = server.add_insecure_port(wanted)
        else:
            folder = self._folder(name, kind)
            if guise == "stranger":
                folder = CertificateFolder(self._authority.stranger().issue(Kind.SERVICE, name))
            elif guise == "impostor":
                folder = CertificateFolder(self._issue(Kind.AGENT, "impostor"))
            bound = server.add_secure_port(wanted, server_credentials(folder))
        await server.start()
        return server, bound

    def dial(self, address: str, role: str) -> grpc.aio.Channel:
        """Returns a channel of its own to an agent, as an orchestrator."""
        options = agent_options(fresh=True)
        if self._authority is None:
            return grpc.aio.insecure_channel(address, options=options)
        own = self._folder("orchestrator").read()
        return secure_channel(
            own, agent(role), lambda used, more: grpc.aio.secure_channel(address, used, options=[*options, *more])
        )

    def dial_as_stranger(self, address: str, role: str) -> grpc.aio.Channel:
        """Returns a channel with a certificate of another authority, which trusts the authority of the mesh."""
        assert self._authority is not None
        stranger = self._authority.stranger()
        own = self._folder("orchestrator").read()
        other = CertificateFolder(stranger.issue(Kind.SERVICE, "orchestrator")).read()
        mixed = replace(own, chain=other.chain, key=other.key)
        return secure_channel(
            mixed, agent(role), lambda used, more: grpc.aio.secure_channel(address, used, options=list(more))
        )
