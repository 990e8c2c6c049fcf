"""Shows that each check can fail: makes one deliberate break at a time in a copy of the tree and wants a 'no'."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


def append(name: str, text: str) -> Callable[[Path], None]:
    """A break that adds text to a file."""

    def make(tree: Path) -> None:
        path = tree / name
        path.write_text(path.read_text() + text)

    return make


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    """A break that changes a file; it must have what is changed."""

    def make(tree: Path) -> None:
        path = tree / name
        text = path.read_text()
        assert old in text, f"{name} doesn't have {old!r}"
        path.write_text(text.replace(old, new, 1))

    return make


RUN_PROTO = "protos/archon/api/orchestrator/v1/run.proto"
BREAKS: list[tuple[str, str, Callable[[Path], None], list[str]]] = [
    ("ruff format", "a badly laid out line", append("sdk/python/archon/context.py", "\nx = {  'a':1 }\n"),
     ["ruff", "format", "--check", "."]),
    ("ruff check", "an unused import", append("sdk/python/archon/context.py", "\nimport os\n"), ["ruff", "check", "."]),
    ("mypy", "an int where a str is due", append("sdk/python/archon/context.py", '\nANSWER: int = "42"\n'),
     ["mypy", "sdk/python/archon/context.py"]),
    ("import floors", "the core imports gRPC", append("mesh/archon_mesh/core/messages.py", "\nimport grpc  # noqa\n"),
     ["lint-imports", "--no-cache"]),
    ("import floors", "the SDK imports a service",
     append("sdk/python/archon/context.py", "\nimport archon_services.common.process  # noqa\n"),
     ["lint-imports", "--no-cache"]),
    ("stub drift", "a field that the stubs don't have",
     replace(RUN_PROTO, "message Recorded {", "message Recorded {\n  // New.\n  int32 fresh = 9;"),
     ["python", "protos/generate.py", "--check"]),
    ("buf lint", "a field without a comment",
     replace(RUN_PROTO, "message Recorded {", "message Recorded {\n  int32 fresh = 9;"), ["buf", "lint", "protos"]),
    ("buf breaking", "a field's number changed", replace(RUN_PROTO, "int64 seq = 2;", "int64 seq = 99;"),
     ["buf", "breaking", "protos", "--against", "protos/baseline.binpb"]),
]  # fmt: skip


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (check, what, make, command) in enumerate(BREAKS):
            tree = Path(scratch) / str(number)
            ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".tools", ".archon", "tests", "*_cache")
            shutil.copytree(ROOT, tree, ignore=ignored)
            paths = os.pathsep.join(str(tree / part) for part in ("sdk/python", "mesh", "services"))
            environment = {**os.environ, "PYTHONPATH": paths, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
            before = run(command, tree, environment)
            make(tree)
            after = run(command, tree, environment)
            held = before == 0 and after != 0
            failed += not held
            print(f"{'ok  ' if held else 'FAIL'} {check}: {what} ({before} -> {after})")
            shutil.rmtree(tree)
    return 1 if failed else 0


def run(command: list[str], tree: Path, environment: dict[str, str]) -> int:
    """The exit code."""
    program = str(BIN / command[0])
    return subprocess.run([program, *command[1:]], cwd=tree, env=environment, capture_output=True).returncode


if __name__ == "__main__":
    sys.exit(main())
