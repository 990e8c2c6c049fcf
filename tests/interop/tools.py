"""`python -m tests.interop.tools` builds the Go tools of the tests into .tools/bin; with names, as in
`python -m tests.interop.tools weaviate-server`, only those. A tool that is there in the right version is kept; another
comes from the cache, or is built and stored in the cache."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tests.fixtures.environment import CALLER
from tests.fixtures.require import TOOLS, find
from tests.interop import cache

BIN: Final = TOOLS / "bin"
PACKAGES: Final = {
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.1",
    "helm": "helm.sh/helm/v3/cmd/helm@v3.19.2",
    "kustomize": "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1",
    "etcd-3.6": "go.etcd.io/etcd/server/v3@v3.6.16",
    "etcdctl-3.6": "go.etcd.io/etcd/etcdctl/v3@v3.6.16",
    "jaeger": "github.com/jaegertracing/jaeger/cmd/jaeger@v1.76.0",
    "weaviate-server": "github.com/weaviate/weaviate/cmd/weaviate-server@v1.35.2",
}
"""The Go package of each program. The name of etcd has its version, because the program of the Python wheel is called
etcd too."""

MODULES: Final = {"jaeger": "github.com/jaegertracing/jaeger@v1.76.0"}
"""Programs that are built with the checksums of their own module: checks of everything else that its dependencies name
would download a gigabyte."""


def go() -> Path:
    """Returns the path of Go. Raises FileNotFoundError if there is none."""
    path = find("go")
    if path is None:
        raise FileNotFoundError("go is neither in .tools/bin nor on PATH: https://go.dev/doc/install")
    return path


def is_built(name: str) -> bool:
    """Returns whether .tools/bin has a program in this version, which Go records in the program."""
    program = BIN / name
    if not program.exists():
        return False
    done = subprocess.run([go(), "version", "-m", program], capture_output=True, text=True)
    module = next((line.split() for line in done.stdout.splitlines() if line.startswith("\tmod\t")), ["", "", ""])
    package, _, version = PACKAGES[name].partition("@")
    return package.startswith(module[1]) and module[2] == version


def build(names: Iterable[str] = PACKAGES, report: Callable[[str], None] = lambda _: None) -> list[str]:
    """Provides missing programs; returns the names of those that were built. `report` gets a line before each build and
    one after it. Raises CalledProcessError."""
    built = []
    BIN.mkdir(parents=True, exist_ok=True)
    with cache.lock(TOOLS / "tools.lock"):
        for name in names:
            if not is_built(name) and not (cache.fetch(_key(name), BIN) and is_built(name)):
                report(f"building {PACKAGES[name]} (downloads its sources; a minute or more) ...")
                began = time.monotonic()
                _install(name)
                report(f"built {name} after {time.monotonic() - began:.0f} s")
                built.append(name)
            if not cache.has(_key(name)):
                cache.store(_key(name), BIN, name)
    return built


def _key(name: str) -> str:
    return f"{name}-{PACKAGES[name].partition('@')[2]}-{platform.system()}-{platform.machine()}".lower()


def _install(name: str) -> None:
    """Builds in a separate module: `go install` refuses a package whose go.mod has replace directives, such as etcd."""
    with tempfile.TemporaryDirectory(prefix="archon-tools-") as folder:
        _go(folder, "mod", "init", "tools")
        if module := MODULES.get(name):
            sums = Path(json.loads(_go(folder, "mod", "download", "-json", module))["Dir"]) / "go.sum"
            (Path(folder) / "go.sum").write_text(sums.read_text())
        _go(folder, "get", PACKAGES[name])
        _go(folder, "build", "-o", str(BIN / name), PACKAGES[name].partition("@")[0])


def _go(folder: str, *arguments: str) -> str:
    """Runs Go in a folder; returns its output."""
    done = subprocess.run([go(), *arguments], cwd=folder, env=dict(CALLER), capture_output=True, text=True)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done.stdout


def main() -> int:
    """Builds the named tools, by default all. Returns 0 if they are there."""
    names = sys.argv[1:] or list(PACKAGES)
    if unknown := set(names) - {*PACKAGES}:
        print(f"error: unknown tool {min(unknown)}; known: {', '.join(PACKAGES)}", file=sys.stderr)
        return 2
    try:
        built = build(names, report=lambda text: print(text, file=sys.stderr, flush=True))
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("built " + ", ".join(built) if built else "the tools are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
