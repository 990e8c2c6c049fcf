"""Generates the Python stubs from the contract, or checks that the committed ones are what it would generate.

python protos/generate.py            write sdk/python/archon/api
python protos/generate.py --check    compare; exit 1 and name what differs
"""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
COMMITTED = ROOT.parent / "sdk" / "python" / "archon" / "api"


def generate(target: Path) -> None:
    """Writes all stubs below `target`/archon/api, with an `__init__` in each package."""
    files = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("archon/**/*.proto"))
    outs = [f"--{plugin}_out={target}" for plugin in ("python", "grpc_python", "mypy", "mypy_grpc")]
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT}", *outs, *files]
    # The plugins stand beside this Python, which need not be on PATH.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": path})
    if done.returncode:
        sys.exit(done.stderr)
    api = target / "archon" / "api"
    for stub in api.rglob("*_pb2_grpc.py*"):
        if "_service_pb2_grpc" not in stub.name:
            stub.unlink()  # holds nothing: messages stand apart from services
    for folder in [api, *(path for path in api.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").write_text('"""Generated from the contract; see protos/."""\n')


def differences(left: Path, right: Path) -> list[str]:
    """Names of files that are missing on one side or differ."""
    names = {
        str(path.relative_to(side))
        for side in (left, right)
        for path in side.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    return sorted(
        name
        for name in names
        if not ((left / name).is_file() and (right / name).is_file())
        or not filecmp.cmp(left / name, right / name, shallow=False)
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = Path(scratch) / "archon" / "api"
        if "--check" in sys.argv[1:]:
            stale = differences(fresh, COMMITTED)
            for name in stale:
                print(f"stub differs from the contract: sdk/python/archon/api/{name}; run 'make protos'")
            return 1 if stale else 0
        shutil.rmtree(COMMITTED, ignore_errors=True)
        shutil.copytree(fresh, COMMITTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
