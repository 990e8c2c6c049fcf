"""Generates the stubs of the TypeScript SDK into `src/api`: `python sdk/typescript/generate.py`; with `--check` it only
tells whether they are those of the contract. Needs `npm ci` in this folder."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
PROTOS: Final = HERE.parents[1] / "protos"
OWN: Final = HERE / "protos"
"""The protocols of health checks and reflection, which come with no Python package."""

PLUGIN: Final = HERE / "node_modules" / ".bin" / "protoc-gen-es"
OUTPUT: Final = HERE / "src" / "api"
PACKAGED: Final = ("google/rpc/status.proto", "google/rpc/error_details.proto")


def google() -> Path:
    """Returns the folder that has google/rpc/status.proto."""
    spec = importlib.util.find_spec("google.rpc")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("googleapis-common-protos is not installed")
    return Path(next(iter(spec.submodule_search_locations))).parents[1]


def generate(target: Path) -> None:
    """Generates all stubs into a folder. Raises CalledProcessError."""
    files = sorted(str(path.relative_to(root)) for root in (PROTOS, OWN) for path in root.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"-I{OWN}", f"-I{google()}"]
    command += [f"--plugin={PLUGIN}", f"--es_out={target}", "--es_opt=target=ts,import_extension=js"]
    subprocess.run([*command, *files, *PACKAGED], cwd=PROTOS, check=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Returns the files of a folder, by their paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def main() -> int:
    """Generates the stubs, or checks them. Returns the exit code."""
    parser = argparse.ArgumentParser(description="Generates the stubs of the TypeScript SDK.")
    parser.add_argument("--check", action="store_true", help="only tell whether the stubs are current")
    is_check = parser.parse_args().check
    if not PLUGIN.exists():
        sys.stderr.write("error: protoc-gen-es is missing: `npm ci` in sdk/typescript\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="archon-stubs-") as folder:
        made = Path(folder)
        generate(made)
        if is_check:
            old, new = contents(OUTPUT) if OUTPUT.exists() else {}, contents(made)
            changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
            for name in changed:
                sys.stderr.write(f"sdk/typescript/src/api/{name} is not what the contract gives\n")
            return 1 if changed else 0
        shutil.rmtree(OUTPUT, ignore_errors=True)
        shutil.copytree(made, OUTPUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
