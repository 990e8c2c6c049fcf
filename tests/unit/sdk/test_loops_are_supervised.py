"""Product code runs endless loops in a BackgroundLoop only: in a bare task, an exception would end one silently."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FILES = [
    path
    for folder in ("sdk/python/archon", "mesh/archon_mesh", "services/archon_services")
    for path in (ROOT / folder).rglob("*.py")
    if "api" not in path.relative_to(ROOT / folder).parts[:1]
]

UNSUPERVISED = {
    "sdk/python/archon/federation/follow.py": "_follow is awaited by the attempt that starts it",
    "services/archon_services/agents/a2a/handler.py": "_cancel ends within CANCEL_PATIENCE, and logs that it failed",
    "services/archon_services/cli/render/mesh_screen.py": "a display; it ends with its command",
    "services/archon_services/gateway/a2a/push_delivery.py": "both are awaited by the delivery that starts them",
    "services/archon_services/gateway/mcp/lent_tools.py": "_tell is ended by the call that starts it",
    "services/archon_services/local_mesh/child.py": "_check is awaited by the supervised loop that starts it",
}


def bare_loops(source: str) -> Iterator[str]:
    """Yields the names of functions that loop for ever and are started as a bare task."""
    if not re.search(r"\b(create_task|ensure_future)\(", source):
        return
    tree = ast.parse(source)
    endless = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef)
        and any(
            isinstance(inner, ast.While) and isinstance(inner.test, ast.Constant) and inner.test.value
            for inner in ast.walk(node)
        )
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in ("create_task", "ensure_future"):
            continue
        for argument in node.args[:1]:
            name = getattr(getattr(argument, "func", None), "attr", getattr(getattr(argument, "func", None), "id", ""))
            if name in endless:
                yield name


def test_endless_loops_are_supervised() -> None:
    bare = {str(path.relative_to(ROOT)): list(bare_loops(path.read_text())) for path in FILES}
    assert {path: names for path, names in bare.items() if names and path not in UNSUPERVISED} == {}
    assert {path for path in UNSUPERVISED if not bare[path]} == set(), "it has no bare loop any more"


def test_a_bare_loop_is_noticed() -> None:
    source = """
class Sweeper:
    def start(self):
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        while True:
            await self._publish()
"""
    assert list(bare_loops(source)) == ["_run"]
