"""Builds the members and clients in other languages from their sources in this folder and from the contract. The output
is in .tools/interop/NAME. A build whose sources have the same hash is kept, or comes from the cache. `python -m
tests.interop.builds` builds those whose programs are installed."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.fixtures.environment import CALLER
from tests.fixtures.require import TOOLS, find, is_required, missing
from tests.interop import cache, node22, tools

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[1]
PROTOS: Final = ROOT / "protos"
GO_MODULE: Final = "github.com/archon-mesh/archon/sdk/go"
STAMP: Final = ".built"
LEFT_BY_HAND: Final = ("node_modules", "dist", "stubs", "target")
"""Folders that a build inside the source folder would create; they are not copied."""


@dataclass(frozen=True, slots=True)
class Build:
    """A build. `make` is called with a folder that has a copy of the sources, and must create `result` there. `needs`
    are the programs that it calls, which `find` finds, `name` is its name in ARCHON_REQUIRE, and `folder` its folder here
    and in .tools/interop."""

    name: str
    folder: str
    needs: tuple[str, ...]
    result: str
    make: Callable[[Path], None]
    find: Callable[[str], Path | None] = find
    sources: Path = HERE
    """The folder above `folder`."""

    @property
    def source(self) -> Path:
        return self.sources / self.folder

    @property
    def target(self) -> Path:
        return TOOLS / "interop" / ("" if self.sources == HERE else self.sources.name) / self.folder

    def digest(self) -> str:
        """Returns the hash of the sources, the contract and the code of the build."""
        total = hashlib.sha256()
        files = [path for path in self.source.rglob("*") if path.is_file()]
        files = [path for path in files if not set(LEFT_BY_HAND).intersection(path.parts)]
        files += [*PROTOS.rglob("*.proto"), Path(__file__), HERE / "tools.py"]
        for path in sorted(files):
            total.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
        return total.hexdigest()

    def is_current(self) -> bool:
        stamp = self.target / STAMP
        return (self.target / self.result).exists() and stamp.exists() and stamp.read_text() == self.digest()

    def run(self) -> Path:
        """Builds if necessary, and returns the path of the result. Raises RuntimeError with the compiler's messages."""
        with cache.lock(self.target.with_name(f"{self.folder}.lock")):
            if not self.is_current():
                self._provide()
        return self.target / self.result

    def _provide(self) -> None:
        digest = self.digest()
        name = "-".join(self.target.relative_to(TOOLS / "interop").parts)
        key = f"{name}-{digest[:20]}-{platform.system()}-{platform.machine()}".lower()
        shutil.rmtree(self.target, ignore_errors=True)
        if cache.fetch(key, self.target) and self.is_current():
            return
        shutil.rmtree(self.target, ignore_errors=True)
        shutil.copytree(self.source, self.target, ignore=shutil.ignore_patterns(*LEFT_BY_HAND))
        self.make(self.target)
        (self.target / STAMP).write_text(digest)
        cache.store(key, self.target)

    def require(self) -> Path:
        """Returns the path of the result. Builds it only if ARCHON_REQUIRE names it, because that takes time and
        network; otherwise skips the test if it is not built."""
        if is_required(self.name):
            for program in self.needs:
                if self.find(program) is None:
                    missing(self.name, f"{program} is neither in .tools/bin nor on PATH")
            return self.run()
        if not self.is_current():
            missing(self.name, f"{self.source.relative_to(ROOT)} is not built: `make test-interop`")
        return self.target / self.result


def call(folder: Path, *command: str | Path) -> None:
    """Runs a command. Raises RuntimeError with the end of its output if it fails."""
    words = [str(word) for word in command]
    process = subprocess.run(words, cwd=folder, capture_output=True, text=True, env=dict(CALLER))
    if process.returncode:
        raise RuntimeError(f"{' '.join(words[:4])} ... failed:\n{(process.stdout + process.stderr)[-4000:]}")


def protoc(target: Path, *options: str, packaged: tuple[str, ...] = ()) -> None:
    """Generates stubs into `target`. `packaged` are protos that come with Python packages."""
    target.mkdir(parents=True)
    files = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    call(
        PROTOS, sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOS}", f"-I{_google()}", *options, *files, *packaged
    )


def _google() -> Path:
    """Returns the folder that has google/rpc/status.proto."""
    spec = importlib.util.find_spec("google.rpc")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))).parents[1]


def _go(folder: Path) -> None:
    tools.build(["protoc-gen-go", "protoc-gen-go-grpc"])
    stubs = folder / "stubs"
    options = []
    for plugin in ("go", "go-grpc"):
        options += [f"--plugin={tools.BIN / f'protoc-gen-{plugin}'}", f"--{plugin}_out={stubs}"]
        options += [f"--{plugin}_opt=module={GO_MODULE}"]
    protoc(stubs, *options)
    (stubs / "go.mod").write_text(f"module {GO_MODULE}\n\ngo 1.24\n")
    call(folder, tools.go(), "vet", ".")
    call(folder, tools.go(), "build", "-o", "agent", ".")


def _typescript(folder: Path) -> None:
    call(folder, "npm", "ci", "--no-audit", "--no-fund")
    plugin = folder / "node_modules" / ".bin" / "protoc-gen-ts_proto"
    options = ["outputServices=grpc-js", "esModuleInterop=true", "useExactTypes=false", "oneof=unions-value"]
    protoc(
        folder / "stubs",
        f"--plugin={plugin}",
        f"--ts_proto_out={folder / 'stubs'}",
        f"--ts_proto_opt={','.join(options)}",
        packaged=("google/rpc/status.proto", "google/rpc/error_details.proto"),
    )
    call(folder, folder / "node_modules" / ".bin" / "tsc")


def _java(folder: Path) -> None:
    call(folder, "mvn", "-q", "-B", f"-Darchon.protos={PROTOS}", "compile")


def _go_sdk(folder: Path) -> None:
    call(folder, tools.go(), "vet", "./...")
    call(folder, tools.go(), "build", "-o", "subject", "./conformance")


def _typescript_sdk(folder: Path) -> None:
    call(folder, "npm", "ci", "--no-audit", "--no-fund")
    call(folder, "npm", "run", "build")


def _java_sdk(folder: Path) -> None:
    call(folder, "mvn", "-q", "-B", f"-Darchon.protos={PROTOS}", "-DskipTests", "package")


def _npm(folder: Path) -> None:
    call(folder, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")


def _with_newer_npm(folder: Path) -> None:
    node = node22.find()
    assert node is not None
    call(folder, node, node22.npm(node), "ci", "--no-audit", "--no-fund", "--ignore-scripts")


GO: Final = Build("go", "go", ("go",), "agent", _go)
TYPESCRIPT: Final = Build("node", "typescript", ("node", "npm"), "dist/client.js", _typescript)
JAVA: Final = Build("java", "java", ("mvn", "java"), "target/classes/dev/archon/interop/Speak.class", _java)
SDK: Final = ROOT / "sdk"
GO_SDK: Final = Build("go", "go", ("go",), "subject", _go_sdk, sources=SDK)
TYPESCRIPT_SDK: Final = Build(
    "node", "typescript", ("node", "npm"), "dist/conformance/subject.js", _typescript_sdk, sources=SDK
)
JAVA_SDK: Final = Build("java", "java", ("mvn", "java"), "conformance/subject", _java_sdk, sources=SDK)
MCP_SUITE: Final = Build(
    node22.NAME,
    "mcp_suite",
    (node22.NAME,),
    "node_modules/@modelcontextprotocol/conformance/dist/index.js",
    _with_newer_npm,
    node22.find,
)
OPENID: Final = Build(
    node22.NAME,
    "openid",
    (node22.NAME,),
    "node_modules/oidc-provider/lib/index.js",
    _with_newer_npm,
    node22.find,
)
A2A: Final = Build("node", "a2a", ("node", "npm"), "node_modules/@a2a-js/sdk/dist/index.js", _npm)


def main() -> int:
    """Builds all. Returns 1 if a build fails, or if programs of a build that ARCHON_REQUIRE names are missing; else
    0."""
    code = 0
    for build in (GO, TYPESCRIPT, JAVA, GO_SDK, TYPESCRIPT_SDK, JAVA_SDK, MCP_SUITE, OPENID, A2A):
        absent = [program for program in build.needs if build.find(program) is None]
        if absent:
            print(f"{build.folder}: not built without {', '.join(absent)}")
            code |= is_required(build.name)
            continue
        began = time.monotonic()
        try:
            build.run()
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"error: {build.folder}: {error}", file=sys.stderr)
            code = 1
        else:
            print(f"{build.folder}: {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
