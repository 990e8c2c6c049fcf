"""Shows that each check can fail: runs it on a clean copy of the tree, then with one deliberate break at a time.

A new gate is a `Break` in `CHECKS`; a check that is new there is a command, run in the root of the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
WORKERS = 2
KNOWN = Path(os.environ.get("MYPY_CACHE_DIR", ROOT / ".mypy_cache"))
"""The cache of mypy, of which each copy of the tree has one."""
IGNORED = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".tools", ".archon", "tests", "*_cache")


@dataclass(frozen=True)
class Break:
    """A deliberate mistake in one file of the tree. `edit` maps the file's text to the broken one ("" if it is new)."""

    what: str
    file: str
    edit: Callable[[str], str]

    @contextmanager
    def made_in(self, tree: Path) -> Iterator[None]:
        """Breaks the tree for as long as the block lasts."""
        path = tree / self.file
        original = path.read_text() if path.exists() else None
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.edit(original or ""))
        try:
            yield
        finally:
            if original is None:
                path.unlink()
            else:
                path.write_text(original)


@dataclass(frozen=True)
class Check:
    """A command that succeeds on the clean tree and fails on each of the breaks."""

    name: str
    command: Sequence[str]
    breaks: Sequence[Break]


def append(text: str) -> Callable[[str], str]:
    """An edit that adds text to a file, or makes a new file of it."""
    return lambda original: original + text


def replace(old: str, new: str) -> Callable[[str], str]:
    """An edit that replaces the first `old`. Raises ValueError if there is none: the break would be void."""

    def edit(original: str) -> str:
        if old not in original:
            raise ValueError(f"the file does not contain {old!r}")
        return original.replace(old, new, 1)

    return edit


PRIVATE_BLOCK = "\n```python\nfrom archon_mesh.engine.plan import Task\n```\n"
CONTEXT = "sdk/python/archon/context.py"
CORE = "mesh/archon_mesh/core/messages.py"
HUB = "services/archon_services/orchestrator/watch/hub.py"
ROW = "services/archon_services/orchestrator/journal/rows.py"
BRANCHES = "\n\ndef branches(number: int) -> int:\n" + "".join(
    f"    if number == {i}:\n        number += {i}\n" for i in range(16)
)
RUN_PROTO = "protos/archon/api/orchestrator/v1/run.proto"
FIELD = "int32 fresh = 9;"

CHECKS = [
    Check(
        "mypy",
        ["mypy", CONTEXT],
        [Break("a str where an int is declared", CONTEXT, append('\nANSWER: int = "42"\n'))],
    ),
    Check(
        "import layers",
        ["lint-imports", "--no-cache"],
        [
            Break("the core imports gRPC", CORE, append("\nimport grpc  # noqa\n")),
            Break("the SDK imports a service", CONTEXT, append("\nimport archon_services.common.process  # noqa\n")),
            Break("a watch imports the API", HUB, append("\nimport archon_services.orchestrator.api  # noqa\n")),
            Break(
                "a circle, for a type alone",
                ROW,
                append(
                    "\nfrom typing import TYPE_CHECKING  # noqa\n\nif TYPE_CHECKING:\n"
                    "    from archon_services.orchestrator.journal.port import Journal  # noqa\n"
                ),
            ),
        ],
    ),
    Check(
        "ruff format",
        ["ruff", "format", "--check", "."],
        [Break("a badly formatted line", CONTEXT, append("\nx = {  'a':1 }\n"))],
    ),
    Check(
        "ruff check",
        ["ruff", "check", "."],
        [
            Break("an unused import", CONTEXT, append("\nimport os\n")),
            Break("a function with 17 branches", CONTEXT, append(f"{BRANCHES}    return number\n")),
        ],
    ),
    Check(
        "glossary",
        ["python", ".ci/glossary.py"],
        [
            Break("a phrase that newcomers do not know", CORE, append("\n# The role is told what it needs.\n")),
            Break("a class by a name that was given up", CONTEXT, append("\n\nclass HeldTask:\n    pass\n")),
        ],
    ),
    Check(
        "sleeps",
        ["python", ".ci/sleeps.py"],
        [Break("a test that sleeps", "tests/test_sleepy.py", append("import time\n\ntime.sleep(0.1)\n"))],
    ),
    Check(
        "public",
        ["python", ".ci/public.py"],
        [
            Break("a guide that imports a private module", "docs/agents.md", append(PRIVATE_BLOCK)),
            Break(
                "an example that imports a private name",
                "examples/private.py",
                append("from archon.client import _ended\n"),
            ),
            Break(
                "a package that imports another's private name", CORE, append("\nfrom archon.client import _ended\n")
            ),
            Break(
                "a public signature with a class of the stubs",
                "sdk/python/archon/run_control.py",
                replace("async def get(self, run_id: str) -> Run:", "async def get(self, run_id: str) -> pb.Run:"),
            ),
            Break(
                "an alias with a class of the stubs in a public signature",
                "sdk/python/archon/submission.py",
                replace("Goal = str | Sequence[Part]", "Goal = str | Sequence[common_pb2.Part]"),
            ),
        ],
    ),
    Check(
        "stub drift",
        ["python", "protos/generate.py", "--check"],
        [
            Break(
                "a field that the stubs do not have",
                RUN_PROTO,
                replace("message Recorded {", f"message Recorded {{\n  // New.\n  {FIELD}"),
            )
        ],
    ),
    Check(
        "buf lint",
        ["buf", "lint", "protos"],
        [
            Break(
                "a field without a comment",
                RUN_PROTO,
                replace("message Recorded {", f"message Recorded {{\n  {FIELD}"),
            )
        ],
    ),
    Check(
        "buf breaking",
        ["buf", "breaking", "protos", "--against", "protos/baseline.binpb"],
        [Break("a field with another number", RUN_PROTO, replace("int64 seq = 2;", "int64 seq = 99;"))],
    ),
]


def main() -> int:
    """Returns 0 if every check passes on the clean tree and fails on each of its breaks."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="archon-gates-") as scratch:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            tree = shutil.copytree(ROOT, Path(scratch) / str(number), ignore=IGNORED)
            if KNOWN.is_dir():
                shutil.copytree(KNOWN, tree / ".mypy_cache")
            trees.put(tree)

        def held(check: Check) -> bool:
            tree = trees.get()
            try:
                return _held(check, tree)
            finally:
                trees.put(tree)

        with ThreadPoolExecutor(WORKERS) as workers:
            results = list(workers.map(held, CHECKS))
    breaks = sum(len(check.breaks) for check in CHECKS)
    print(f"{len(CHECKS)} checks, {breaks} deliberate breaks: {time.monotonic() - began:.0f} s")
    return 0 if all(results) else 1


def _held(check: Check, tree: Path) -> bool:
    clean = _run(check.command, tree)
    if clean.returncode:
        print(f"FAIL {check.name}: fails on the clean tree\n{_end(clean)}", flush=True)
        return False
    held = True
    for broken in check.breaks:
        with broken.made_in(tree):
            noticed = _run(check.command, tree).returncode != 0
        print(f"{'ok  ' if noticed else 'FAIL'} {check.name}: {broken.what}", flush=True)
        held = held and noticed
    return held


def _run(command: Sequence[str], tree: Path) -> subprocess.CompletedProcess[str]:
    sources = os.pathsep.join(str(tree / part) for part in ("sdk/python", "mesh", "services"))
    environment = {
        **os.environ,
        "PYTHONPATH": sources,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "MYPY_CACHE_DIR": str(tree / ".mypy_cache"),
    }
    program = str(BIN / command[0])
    return subprocess.run([program, *command[1:]], cwd=tree, env=environment, capture_output=True, text=True)


def _end(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stdout + done.stderr)[-2000:]


if __name__ == "__main__":
    sys.exit(main())
