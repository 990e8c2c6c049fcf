"""Generates the Go stubs from the contract, or checks that the committed ones are what it would generate.

python sdk/go/generate.py            write sdk/go/api
python sdk/go/generate.py --check    compare; exit 1 and name what differs

The plugins are those of `python -m tests.interop.tools protoc-gen-go protoc-gen-go-grpc`, which are built if they are
missing.
"""

from __future__ import annotations

import filecmp
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PROTOS: Final = ROOT / "protos"
COMMITTED: Final = ROOT / "sdk" / "go" / "api"
MODULE: Final = "github.com/archon-mesh/archon/sdk/go"

sys.path.insert(0, str(ROOT))

from tests.interop import tools  # noqa: E402 - found by the line before


def generate(target: Path) -> None:
    """Writes all stubs below `target`/api. Raises SystemExit with the messages of protoc."""
    tools.build(["protoc-gen-go", "protoc-gen-go-grpc"])
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}"]
    for plugin in ("go", "go-grpc"):
        command += [f"--plugin={tools.BIN / f'protoc-gen-{plugin}'}", f"--{plugin}_out={target}"]
        command += [f"--{plugin}_opt=module={MODULE}"]
    done = subprocess.run([*command, *files], cwd=PROTOS, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def differences(left: Path, right: Path) -> list[str]:
    """Names of files that are missing on one side or differ."""
    names = {str(path.relative_to(side)) for side in (left, right) for path in side.rglob("*.go")}
    return sorted(
        name
        for name in names
        if not ((left / name).is_file() and (right / name).is_file())
        or not filecmp.cmp(left / name, right / name, shallow=False)
    )


def main() -> int:
    """Writes or compares the stubs. Returns 0 if the committed ones are current."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = Path(scratch) / "api"
        if "--check" in sys.argv[1:]:
            stale = differences(fresh, COMMITTED)
            for name in stale:
                sys.stdout.write(f"stub differs from the contract: sdk/go/api/{name}; run 'make protos'\n")
            return 1 if stale else 0
        shutil.rmtree(COMMITTED, ignore_errors=True)
        shutil.copytree(fresh, COMMITTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
