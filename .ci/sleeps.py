"""Finds tests that sleep for a fixed time. Such a test is slow, and fails on a machine that is slower.

python .ci/sleeps.py [ROOT]    exit 1 and `file:line: message` for each finding
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = "tests"
MODULES = ("asyncio", "time")
ALLOWED = {
    "tests/bench/": "measurements of a load, not tests",
    "tests/fixtures/etcd_cluster.py": "polls a server that is starting",
    "tests/fixtures/fork_server.py": "polls a process that is being stopped",
    "tests/fixtures/jaeger.py": "polls a server that is starting",
    "tests/fixtures/postgres.py": "polls a server that is starting",
    "tests/fixtures/services.py": "polls a process that is starting",
    "tests/fixtures/weaviate.py": "polls a server that is starting",
    "tests/interop/mcp/mesh.py": "a role that takes a second, as the suite wants it",
    "tests/web/asking_roles.py": "roles whose answers come in pieces, as a reader sees them",
    "tests/simulation/": "virtual time: no process waits",
}
"""Files and folders that may sleep, and the reason."""

HINT = """\
hint: wait for a state: eventually, until or wait_until of tests/fixtures/waiting.py, or an event
      virtual time: pass_time of tests/fixtures/virtual_time.py within run_virtual, or an injected clock
      until cancelled: await asyncio.Event().wait()"""


def check(root: Path) -> Iterator[str]:
    """Yields a finding for each sleep of a fixed time in the tests below `root`."""
    for path in sorted((root / TESTS).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(tuple(ALLOWED)):
            continue
        text = path.read_text()
        if "sleep" in text:
            for line, call in sorted(_sleeps(ast.parse(text, name))):
                yield f"{name}:{line}: {call}"


def _sleeps(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields line and text of each call of `asyncio.sleep` or `time.sleep`, by any name, with a literal above 0."""
    modules, functions = _names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Attribute(ast.Name(module), "sleep") if module in modules:
                pass
            case ast.Name(function) if function in functions:
                pass
            case _:
                continue
        seconds = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in ("delay", "secs"))]
        if seconds and _literal(seconds[0]) and ast.unparse(seconds[0]) not in ("0", "0.0"):
            yield node.lineno, ast.unparse(node)


def _names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Returns the names under which a file knows the modules, and those under which it knows their `sleep`."""
    modules: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname or name.name for name in node.names if name.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            functions |= {name.asname or name.name for name in node.names if name.name == "sleep"}
    return modules, functions


def _literal(node: ast.expr) -> bool:
    """Returns whether an expression consists of numbers only, as `2 * 0.1` does."""
    match node:
        case ast.Constant(value):
            return isinstance(value, int | float)
        case ast.UnaryOp(ast.UAdd(), operand):
            return _literal(operand)
        case ast.BinOp(left, _, right):
            return _literal(left) and _literal(right)
    return False


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(check(root))
    if found:
        print(*found, HINT, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
