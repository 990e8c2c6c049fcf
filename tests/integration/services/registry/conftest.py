"""Fixtures: a real etcd, and the registry with each of its stores."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol

import pytest

from archon.registry import DependsOn, Registration, RegistryClient
from archon_services.registry import RegistrySettings, registry_app
from archon_services.testing import EtcdProcess

_ports = itertools.count(20_000)


class Make(Protocol):
    def __call__(self, role: str, *upstreams: str, version: str = "1", ttl: float = 10.0) -> Registration: ...


class Eventually(Protocol):
    async def __call__(self, condition: Callable[[], Awaitable[bool]], within: float) -> None: ...


def settings(**values: Any) -> RegistrySettings:
    """Settings of a registry; the others have their defaults."""
    return RegistrySettings(**values)


@pytest.fixture(scope="session")
def etcd() -> Iterator[EtcdProcess]:
    """One etcd for all tests that leave it running; each test has a prefix of its own."""
    with EtcdProcess() as process:
        yield process


@pytest.fixture
def fresh_etcd() -> Iterator[EtcdProcess]:
    """An etcd that a test may kill, freeze or wipe."""
    with EtcdProcess() as process:
        yield process


@pytest.fixture
def prefix() -> str:
    return f"/test/{uuid.uuid4().hex}"


@pytest.fixture(params=["memory", "etcd"])
async def registry(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[str]:
    """The address of a registry, with each store."""
    store = "memory" if request.param == "memory" else request.getfixturevalue("etcd").address
    async with registry_app(settings(etcd=store, prefix=prefix)) as address:
        yield address


@pytest.fixture
async def client(registry: str) -> AsyncIterator[RegistryClient]:
    async with RegistryClient(registry) as client:
        yield client


@pytest.fixture
def make() -> Make:
    """Makes a registration from a role and the roles it depends on."""

    def registration(role: str, *upstreams: str, version: str = "1", ttl: float = 10.0) -> Registration:
        return Registration(
            role=role,
            version=version,
            ttl=ttl,
            address=f"127.0.0.1:{next(_ports)}",
            depends_on=[DependsOn(upstream) for upstream in upstreams],
        )

    return registration


@pytest.fixture
def eventually() -> Eventually:
    """Waits until a condition holds, at most `within` seconds."""

    async def wait(condition: Callable[[], Awaitable[bool]], within: float) -> None:
        async with asyncio.timeout(within):
            while not await condition():  # noqa: ASYNC110 - the condition is about another process
                await asyncio.sleep(0.02)

    return wait
