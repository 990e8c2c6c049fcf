"""The roles of asking_roles as members of the mesh of the web page."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from archon.registry import RegistryClient
from tests.fixtures.waiting import eventually
from tests.web.asking_roles import ROLES
from tests.web.page_mesh import WebMesh

_SECONDS: Final = 60.0


@asynccontextmanager
async def serving_roles(web: WebMesh) -> AsyncIterator[None]:
    """Serves the roles in a process of their own during the block."""
    environment = {**os.environ, "ARCHON_HOME": str(web.mesh.home), "ARCHON_REGISTRY": web.mesh.registry}
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.web.asking_roles", env=environment)
    try:
        async with RegistryClient(web.mesh.registry, credentials=web.mesh.credentials) as registry:

            async def registered() -> bool:
                return set(ROLES) <= {instance.role for instance in await registry.list_instances()}

            await eventually(registered, within=_SECONDS)
        yield
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), _SECONDS)
