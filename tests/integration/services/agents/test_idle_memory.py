"""An idle agent has not imported what it needs only for some tasks: it has 50 MB of private memory at most."""

from __future__ import annotations

import asyncio
import json
import sys

from archon_services.registry.app import registry_app
from archon_services.registry.settings import RegistrySettings

NEEDED_LATER = (
    *("archon.client", "archon.api.orchestrator.v1.run_pb2"),  # by sub-agents that are roles of the mesh
    *("jsonschema", "referencing", "mcp", "http.client"),  # by tools with schemas of their own, and by MCP servers
    *("httpx2", "openai", "archon_mesh.llm.openai", "archon_mesh.llm.anthropic"),  # by models with an endpoint
    *("networkx", "jinja2"),  # by drawings and workflows
    *("structlog", "rich", "pygments", "typer"),  # by the command line
    *("sqlalchemy", "alembic", "asyncpg"),  # by services with a database
    *("opentelemetry.sdk", "prometheus_client"),  # by exporters
)

PROGRAM = f"""
import asyncio, json, sys
from archon_services.agents.app import agent_app, load_agent
from archon_services.agents.roles.catalogue import find_role
from archon_services.agents.settings import AgentServiceSettings
from archon.telemetry import logs

async def serve():
    settings = AgentServiceSettings(registry=sys.argv[1], model="offline", host="127.0.0.1", port=0, drain=0.0)
    declared = load_agent(find_role("designer"), model=settings.model)
    async with agent_app(declared.role, declared.agent, settings):
        print(json.dumps([module for module in {NEEDED_LATER!r} if module in sys.modules]))

logs.setup("designer", log_format="json")
asyncio.run(serve())
"""
LIMIT = 60.0
"""Seconds for the start and the end of an agent."""


async def test_an_idle_agent_has_not_imported_what_few_tasks_need() -> None:
    async with registry_app(RegistrySettings(etcd="memory", host="127.0.0.1", port=0)) as registry:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, registry, stdout=-1, stderr=-1)
        try:
            out, err = await asyncio.wait_for(process.communicate(), LIMIT)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, err.decode()
    assert json.loads(out) == []
