"""A subject with the peers around it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc.aio

from archon.conformance.case import Case
from archon.conformance.certificates import TestAuthority
from archon.conformance.peers.attach_point import AttachPoint
from archon.conformance.peers.registry import FakeRegistry
from archon.conformance.peers.scripted import OWNERS, ScriptedService
from archon.conformance.peers.serving import Place
from archon.conformance.subject import Subject
from archon.loopback import with_port
from archon.principal import Kind, Principal
from archon.security.keys import SigningKey, key_set_text
from archon.security.tokens import Audience, sign

ROLE: Final = "subject"
SHARED_TASKS: Final = 1000
"""The capacity of a subject that several scenarios share."""


@dataclass
class Tokens:
    """The key of a mesh that needs tokens, and files with tokens of the subject."""

    folder: Path
    key: SigningKey = field(default_factory=lambda: SigningKey.generate("conformance"))

    @property
    def keys_json(self) -> str:
        """The public half of the key as a JSON Web Key Set, as a registry hands it out."""
        return key_set_text([self.key.public], self.key.issuer, [])

    def token(self, kind: Kind, name: str, audience: Audience, seconds: float = 3600.0) -> str:
        """Returns a token; a negative number of seconds: it has expired."""
        now = time.time()
        roles = frozenset({name}) if kind is Kind.AGENT else frozenset[str]()
        principal = Principal(kind, name, roles=roles, expires=now + seconds)
        return sign(self.key, principal, audience, now=now)

    def file(self) -> Path:
        """Returns a file with the subject's tokens."""
        path = self.folder / "token"
        if not path.exists():
            audiences: tuple[Audience, ...] = ("services", "agents")
            path.write_text("\n".join(self.token(Kind.AGENT, ROLE, audience) for audience in audiences))
            path.chmod(0o600)
        return path


class Bench:
    """One subject process and the services that it knows. `start` before use; `stop` is idempotent."""

    def __init__(
        self, command: Sequence[str], case: Case, folder: Path, authority: TestAuthority | None, *, patience: float
    ) -> None:
        self._command = command
        self._case = case
        self._folder = folder
        self._patience = patience
        self.place = Place(authority, case.scenario.host)
        self.mode = case.scenario.mode
        self.attached = self.mode == "agent" and case.transport == "attached"
        self.registry = FakeRegistry(self.place)
        self.attach_point = AttachPoint()
        self.services: dict[str, ScriptedService] = {}
        self.owners: list[Any] = []
        """Instances with shared tools that the registry of a client lists."""
        self.folder = folder
        self._attach_server: Any = None
        self._attach_port = 0
        self.tokens: Tokens | None = None
        self.subject: Subject | None = None

    @property
    def ready(self) -> dict[str, Any]:
        """The content of the subject's first line."""
        assert self.subject is not None
        return self.subject.ready

    async def start(self) -> None:
        """Starts the peers, then the subject. Raises SubjectFailed."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.mode == "agent":
            environment = await self._agent_environment()
        else:
            environment = await self._client_environment()
        environment |= self._filled(self._case.scenario.env)
        self.subject = Subject(self._command, self.mode, environment, self._folder)
        await self.subject.start(self._patience)

    async def _agent_environment(self) -> dict[str, str]:
        environment = {
            "ARCHON_HOME": str(self._folder / "home"),
            "ARCHON_HOST": self.place.host,
            "ARCHON_MAX_TASKS": str(SHARED_TASKS),
            "ARCHON_LOG_LEVEL": "warning",
            "ARCHON_DRAIN": "10",
            **self.place.environment(Kind.AGENT, ROLE),
        }
        await self.registry.start()
        environment["ARCHON_REGISTRY"] = self.registry.address
        if self.attached or "$orchestrator" in self._case.scenario.env.values():
            await self.start_attach_point()
        if self.attached:
            environment["ARCHON_ATTACH"] = with_port(self.place.host, self._attach_port)
        if "$token_file" in self._case.scenario.env.values():
            self.tokens = Tokens(self._folder)
            self.registry.keys_json = self.tokens.keys_json
        return environment

    async def _client_environment(self) -> dict[str, str]:
        environment = {"ARCHON_HOME": str(self._folder / "home"), **self.place.environment(Kind.OPERATOR, "tester")}
        for name, variable in (
            ("orchestrator", "ARCHON_TARGET"),
            ("registry", "ARCHON_REGISTRY"),
            ("memory", "ARCHON_MEMORY"),
        ):
            service = self.services[name] = ScriptedService(name, self.place)
            await service.start()
            environment[variable] = service.address
        for name in OWNERS:
            service = self.services[name] = ScriptedService(name, self.place)
            await service.start()
        if "$token_file" in self._case.scenario.env.values():
            self.tokens = Tokens(self._folder)
        return environment

    def _filled(self, environment: Mapping[str, str]) -> dict[str, str]:
        names = {"$folder": str(self._folder), "$orchestrator": with_port(self.place.host, self._attach_port)}
        if self.tokens is not None:
            names["$token_file"] = str(self.tokens.file())
        filled = {}
        for key, text in environment.items():
            for name, value in names.items():
                text = text.replace(name, value)
            filled[key] = text
        return filled

    async def start_attach_point(self, guise: str = "") -> None:
        """Serves Attach, on the port of the last time if there was one, with the certificate of a `guise`."""
        self._attach_server, self._attach_port = await self.place.serve(
            "orchestrator", self.attach_point.add_to, self._attach_port, guise=guise
        )

    async def stop_attach_point(self) -> None:
        """Stops serving Attach at once. Idempotent."""
        if self._attach_server is not None:
            server, self._attach_server = self._attach_server, None
            await server.stop(0)

    def dial(self) -> grpc.aio.Channel:
        """Returns a channel of its own to the subject, an agent that can be dialled."""
        return self.place.dial(self.ready["address"], ROLE)

    async def stop(self) -> None:
        """Ends the subject, then the peers."""
        if self.subject is not None:
            await self.subject.stop()
        await self.stop_attach_point()
        await self.registry.stop()
        for service in self.services.values():
            await service.stop()


def group_key(case: Case) -> str:
    """Returns a text that is equal for cases which share a subject."""
    scenario = case.scenario
    return json.dumps([scenario.mode, case.transport, case.security, scenario.host, sorted(scenario.env.items())])
