"""Packages import heavy libraries only when they are used."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = (
    "alembic",
    "asyncpg",
    "httpx2",
    "jinja2",
    "networkx",
    "opentelemetry.sdk.metrics",
    "prometheus_client",
    "sqlalchemy",
)
STEPS = {
    "plans": "import archon_mesh.engine.plan; archon_mesh.engine.plan.Task",
    "metrics without an exporter": "from archon.telemetry import metrics_export; assert metrics_export.start('x') is None",
    "the offline model": "from archon_mesh.llm import create_model; create_model('offline')",
    "agents": "import archon_mesh.agent; archon_mesh.agent.Agent",
    "workflows": "import archon_mesh.workflows, archon_services.cli.commands.workflow",
    "the orchestrator": "from archon_services.orchestrator.app import orchestrator_app",
}
"""What is done, in one process, and in this order: `yaml` is read by the command line."""

PROGRAM = f"""
import json, sys
imported = {{}}
for name, step in {STEPS!r}.items():
    exec(step)
    heavy = {HEAVY!r} + (() if name in ("workflows", "the orchestrator") else ("yaml",))
    imported[name] = [module for module in heavy if module in sys.modules]
print(json.dumps(imported))
"""


def test_heavy_libraries_are_imported_when_they_are_used() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {name: [] for name in STEPS}
