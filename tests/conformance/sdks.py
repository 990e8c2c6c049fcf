"""The SDKs for Go, TypeScript and Java: how each is built, started as a subject, changed and tested."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop import tools
from tests.interop.builds import GO_SDK, JAVA_SDK, TYPESCRIPT_SDK, Build, call


@dataclass(frozen=True, slots=True)
class Sdk:
    """An SDK. `again` compiles a copy of its build in which one file, relative to the copy, has changed; raises
    RuntimeError with the compiler's messages. `linked` are paths in its build that a copy links to."""

    name: str
    build: Build
    subject: Callable[[Path], list[str]]
    tests: Callable[[], list[list[str]]]
    again: Callable[[Path, str], None]
    linked: tuple[str, ...] = ()


def _go(folder: Path, _: str) -> None:
    # Without the paths of the folder the packages that have not changed come from Go's cache, whatever the copy.
    call(folder, tools.go(), "build", "-trimpath", "-ldflags=-s -w", "-o", GO_SDK.result, "./conformance")


def _typescript(folder: Path, _: str) -> None:
    # Types are not checked again, which takes most of the time: a mutant counts by what it does.
    options = "-p tsconfig.json --noCheck --declaration false --incremental --tsBuildInfoFile .incremental"
    call(folder, folder / "node_modules" / ".bin" / "tsc", *options.split())


def _java(folder: Path, file: str) -> None:
    """Compiles the file alone, into a folder before the others of the class path: those stay as they were built."""
    target, script = folder / "target", folder / JAVA_SDK.result
    changed = target / "changed"
    shutil.rmtree(changed, ignore_errors=True)
    changed.mkdir()
    if str(changed) not in script.read_text():
        script.write_text(script.read_text().replace('-cp "', f'-cp "{changed}:'))
    classes = f"{target / 'classes'}:{target / 'lib'}/*"
    call(folder, "javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", changed, "-cp", classes, file)


SDKS: Final = (
    Sdk("go", GO_SDK, lambda built: [str(built)], lambda: [[str(tools.go()), "test", "./..."]], _go),
    Sdk(
        "typescript",
        TYPESCRIPT_SDK,
        lambda built: ["node", str(built)],
        lambda: [["npm", "run", "lint"], ["npm", "test"]],
        _typescript,
        ("node_modules",),
    ),
    Sdk(
        "java",
        JAVA_SDK,
        lambda built: [str(built)],
        lambda: [["mvn", "-q", "-B", "-o", "test"]],
        _java,
        ("target/lib",),
    ),
)


def sdk(name: str) -> Sdk:
    """Returns the SDK of this name. Raises KeyError."""
    return {each.name: each for each in SDKS}[name]
