"""A mesh whose services accept tokens of an OpenID provider beside those of its members, over real servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from archon.client import Client
from archon.errors import PermissionDenied, TokenExpired, TokenInvalid, TokenMissing
from archon.principal import Kind, Principal
from archon.registry import Registration, RegistryClient
from archon.security.credentials import Metadata, NoCredentials, Tokens
from archon.security.tokens import MAX_TOKEN
from tests.fixtures.openid_mesh import OpenIdMesh, Presented, openid_mesh
from tests.fixtures.waiting import until


@pytest.fixture
async def open_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenIdMesh]:
    async with openid_mesh(tmp_path, monkeypatch) as mesh:
        yield mesh


async def test_people_of_the_provider_have_the_kind_of_their_group(open_mesh: OpenIdMesh) -> None:
    openid, address = open_mesh.openid, open_mesh.mesh.orchestrator.address
    async with Client(address, credentials=Tokens(openid.token())) as client:
        run = await (await client.submit("x", roles=["worker"])).result(10)
        assert [answer.text for answer in run.answers] == ["done"]
    async with Client(address, credentials=Tokens(openid.token(groups=[]))) as client:
        assert await client.list_runs(limit=1)
        with pytest.raises(PermissionDenied, match="alice is of kind viewer and may not call SubmitRun"):
            await client.submit("x", roles=["worker"])


async def test_no_group_makes_an_agent_or_a_service(open_mesh: OpenIdMesh) -> None:
    token = open_mesh.openid.token(kind="service", roles=["worker"], groups=["service", "agent", "devs"])
    async with RegistryClient(open_mesh.mesh.registry.address, credentials=Tokens(token)) as client:
        with pytest.raises(PermissionDenied, match="kind operator and may not call RegisterInstance"):
            await client.register(Registration(role="w", instance_id="w-1", address="127.0.0.1:7999"))


async def test_members_and_strangers_are_treated_as_without_a_provider(open_mesh: OpenIdMesh) -> None:
    viewer = open_mesh.keys.credentials(Principal(Kind.VIEWER, "vi"))
    assert await open_mesh.outcome(viewer) is None
    assert type(await open_mesh.outcome(NoCredentials())) is TokenMissing
    damaged = open_mesh.openid.token()[:-6] + "AAAAAA"
    assert type(await open_mesh.outcome(Presented(damaged))) is TokenInvalid


@pytest.mark.search
async def test_open_streams_end_when_their_token_expires(open_mesh: OpenIdMesh) -> None:
    run = await open_mesh.mesh.client.submit("x", roles=["sleeper"])
    token = open_mesh.openid.token(exp=int(time.time()) + 3)
    async with Client(open_mesh.mesh.orchestrator.address, credentials=Presented(token)) as client:
        with pytest.raises(TokenExpired):
            async with asyncio.timeout(15), aclosing(client.watch(run.run_id)) as events:
                async for _ in events:
                    pass
    await run.cancel()


class Renewed:
    """Presents a token that ends in seconds, and after its end another one."""

    def __init__(self, mesh: OpenIdMesh) -> None:
        self._ends = int(time.time()) + 3
        self._tokens = mesh.openid.token(exp=self._ends), mesh.openid.token()
        self.presented: list[int] = []

    def metadata(self) -> Metadata:
        self.presented.append(int(time.time() >= self._ends))
        return (("authorization", f"Bearer {self._tokens[self.presented[-1]]}"),)


@pytest.mark.search
async def test_a_watch_goes_on_with_a_token_that_was_renewed(open_mesh: OpenIdMesh) -> None:
    run = await open_mesh.mesh.client.submit("x", roles=["sleeper"])
    credentials = Renewed(open_mesh)
    async with Client(open_mesh.mesh.orchestrator.address, credentials=credentials) as client:
        watching = asyncio.create_task(_durable(client, run.run_id))
        await until(lambda: credentials.presented[-1:] == [1])
        await run.cancel()
        sequences = await asyncio.wait_for(watching, 20)
    assert sequences == list(range(1, len(sequences) + 1))
    assert (await open_mesh.mesh.client.get(run.run_id)).state.final


async def _durable(client: Client, run_id: str) -> list[int]:
    """Watches a run to its end. Returns the numbers of its durable events."""
    async with aclosing(client.watch(run_id, durable_only=True)) as events:
        return [event.seq async for event in events]


async def test_a_token_of_the_largest_size_passes_each_time(open_mesh: OpenIdMesh) -> None:
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
