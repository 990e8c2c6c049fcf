"""Fixtures of the tests with other languages: their programs, a mesh, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from archon.client import Client
from archon_services.testing.mesh import LocalMesh
from tests.interop.go_agent import go_program, start_go

__all__ = ["go_program", "start_go"]


@pytest.fixture(scope="module")
def mesh() -> Iterator[LocalMesh]:
    """A mesh with the reference roles."""
    with LocalMesh() as mesh:
        yield mesh


@pytest.fixture
async def client(mesh: LocalMesh) -> AsyncIterator[Client]:
    """A client of the mesh's orchestrator."""
    async with Client(mesh.orchestrator, credentials=mesh.credentials) as client:
        yield client
