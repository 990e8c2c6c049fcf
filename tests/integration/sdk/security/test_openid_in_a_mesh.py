"""A mesh whose services accept tokens of an OpenID provider beside those of its members, over real servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

import pytest

from archon.agent import AgentServer
from archon.client import Client
from archon.errors import ArchonError, PermissionDenied, TokenExpired, TokenInvalid, TokenMissing
from archon.principal import Kind, Principal
from archon.registry import Registration, RegistryClient
from archon.security.credentials import Credentials, Metadata, NoCredentials, Tokens
from archon.security.tokens import MAX_TOKEN
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.openid_provider import OpenIdProvider
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually

KINDS: Final = "admin=mesh-admins,operator=devs,viewer=*"


class Presented:
    """Presents a token, whatever it is."""

    def __init__(self, token: str) -> None:
        self._token = token

    def metadata(self) -> Metadata:
        return (("authorization", f"Bearer {self._token}"),)


class OpenMesh:
    """A mesh of an OpenID provider, with agents of the roles `worker` and `sleeper`."""

    def __init__(self, folder: Path, openid: OpenIdProvider, keys: TestKeys) -> None:
        self.openid = openid
        self.keys = keys
        self.mesh = InProcessMesh(folder)

    async def outcome(self, credentials: Credentials) -> ArchonError | None:
        """Returns why a caller may not list runs; None if it may."""
        async with Client(self.mesh.orchestrator.address, credentials=credentials) as client:
            try:
                await client.list_runs(limit=1)
            except ArchonError as error:
                return error
        return None

    async def let_in(self, token: str) -> bool:
        return await self.outcome(Presented(token)) is None


async def _sleep(task: object) -> str:
    await asyncio.Event().wait()
    return ""


@pytest.fixture
async def open_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenMesh]:
    monkeypatch.setattr("archon.security.openid.settings.LEEWAY", 0.0)
    keys = TestKeys(tmp_path)
    async with OpenIdProvider() as openid:
        provider = {"ISSUER": openid.issuer, "AUDIENCE": "archon", "KINDS": KINDS}
        for name, value in {**keys.environment(), **{f"ARCHON_OIDC_{n}": v for n, v in provider.items()}}.items():
            monkeypatch.setenv(name, value)
        opened = OpenMesh(tmp_path, openid, keys)
        async with (
            opened.mesh,
            AgentServer("worker", handler=lambda task: "done", settings=opened.mesh.agent_settings()),
            AgentServer("sleeper", handler=_sleep, settings=opened.mesh.agent_settings()),
        ):
            await eventually(lambda: opened.let_in(openid.token()))
            yield opened


async def test_people_of_the_provider_have_the_kind_of_their_group(open_mesh: OpenMesh) -> None:
    openid, address = open_mesh.openid, open_mesh.mesh.orchestrator.address
    async with Client(address, credentials=Tokens(openid.token())) as client:
        run = await (await client.submit("x", roles=["worker"])).result(10)
        assert [answer.text for answer in run.answers] == ["done"]
    async with Client(address, credentials=Tokens(openid.token(groups=[]))) as client:
        assert await client.list_runs(limit=1)
        with pytest.raises(PermissionDenied, match="alice is of kind viewer and may not call SubmitRun"):
            await client.submit("x", roles=["worker"])


async def test_no_group_makes_an_agent_or_a_service(open_mesh: OpenMesh) -> None:
    token = open_mesh.openid.token(kind="service", roles=["worker"], groups=["service", "agent", "devs"])
    async with RegistryClient(open_mesh.mesh.registry.address, credentials=Tokens(token)) as client:
        with pytest.raises(PermissionDenied, match="kind operator and may not call RegisterInstance"):
            await client.register(Registration(role="w", instance_id="w-1", address="127.0.0.1:7999"))


async def test_members_and_strangers_are_treated_as_without_a_provider(open_mesh: OpenMesh) -> None:
    viewer = open_mesh.keys.credentials(Principal(Kind.VIEWER, "vi"))
    assert await open_mesh.outcome(viewer) is None
    assert type(await open_mesh.outcome(NoCredentials())) is TokenMissing
    damaged = open_mesh.openid.token()[:-6] + "AAAAAA"
    assert type(await open_mesh.outcome(Presented(damaged))) is TokenInvalid


async def test_open_streams_end_when_their_token_expires(open_mesh: OpenMesh) -> None:
    run = await open_mesh.mesh.client.submit("x", roles=["sleeper"])
    token = open_mesh.openid.token(exp=int(time.time()) + 3)
    async with Client(open_mesh.mesh.orchestrator.address, credentials=Presented(token)) as client:
        with pytest.raises(TokenExpired):
            async with asyncio.timeout(15), aclosing(client.watch(run.run_id)) as events:
                async for _ in events:
                    pass
    await run.cancel()


async def test_a_token_of_the_largest_size_passes_each_time(open_mesh: OpenMesh) -> None:
    def token(groups: int) -> str:
        return open_mesh.openid.token(groups=["devs", "g" * groups])

    size = 5_000
    while len(token(size + 100)) <= MAX_TOKEN:
        size += 100
    largest = token(size)
    assert MAX_TOKEN - 200 < len(largest) <= MAX_TOKEN
    for _ in range(20):
        assert await open_mesh.outcome(Presented(largest)) is None
    assert type(await open_mesh.outcome(Presented(token(size + 200)))) is TokenInvalid
