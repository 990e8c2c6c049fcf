"""Builds the Go tools that tests use into .tools/bin: `python -m tests.interop.tools`. What is there in the right
version is left as it is."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.fixtures.require import TOOLS, find

BIN: Final = TOOLS / "bin"
PACKAGES: Final = {
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.1",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1",
    "etcd-3.6": "go.etcd.io/etcd/server/v3@v3.6.16",
    "etcdctl-3.6": "go.etcd.io/etcd/etcdctl/v3@v3.6.16",
}
"""Program to Go package. etcd goes by its version here: the one of the Python wheel is called etcd too."""


def go() -> Path:
    """Raises FileNotFoundError where there is no Go."""
    found = find("go")
    if found is None:
        raise FileNotFoundError("go is neither in .tools/bin nor on PATH: https://go.dev/doc/install")
    return found


def is_built(name: str) -> bool:
    """Whether .tools/bin has it in this version; the program itself says which it is of."""
    program = BIN / name
    if not program.exists():
        return False
    done = subprocess.run([go(), "version", "-m", program], capture_output=True, text=True)
    module = next((line.split() for line in done.stdout.splitlines() if line.startswith("\tmod\t")), ["", "", ""])
    package, _, version = PACKAGES[name].partition("@")
    return package.startswith(module[1]) and module[2] == version


def build(names: Iterable[str] = PACKAGES) -> list[str]:
    """Builds what isn't there; the names of what was built. Raises CalledProcessError."""
    built = []
    for name in names:
        if not is_built(name):
            BIN.mkdir(parents=True, exist_ok=True)
            _install(name)
            built.append(name)
    return built


def _install(name: str) -> None:
    """In a module of its own, since `go install` refuses packages whose go.mod replaces others, as etcd's does."""
    with tempfile.TemporaryDirectory(prefix="archon-tools-") as folder:
        for command in (
            ["mod", "init", "tools"],
            ["get", PACKAGES[name]],
            ["build", "-o", str(BIN / name), PACKAGES[name].partition("@")[0]],
        ):
            done = subprocess.run([go(), *command], cwd=folder, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                sys.stderr.write(done.stderr)
                done.check_returncode()


def main() -> int:
    try:
        built = build()
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("built " + ", ".join(built) if built else "the tools are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
