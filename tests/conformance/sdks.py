"""The SDKs for Go, TypeScript and Java: how each is built, started as a subject, changed and tested."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop import tools
from tests.interop.builds import GO_SDK, JAVA_SDK, ROOT, TYPESCRIPT_SDK, Build, call


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


TRANSPILE: Final = """
const ts = require("typescript"), fs = require("fs"), path = require("path");
const compilerOptions = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, verbatimModuleSyntax: true };
for (const fileName of process.argv.slice(1)) {
  const source = fs.readFileSync(fileName, "utf8");
  const { outputText, diagnostics } = ts.transpileModule(source, { compilerOptions, fileName, reportDiagnostics: true });
  for (const { messageText } of diagnostics) {
    console.error(fileName, ts.flattenDiagnosticMessageText(messageText, " "));
    process.exitCode = 1;
  }
  fs.writeFileSync(path.join("dist", fileName.replace(/ts$/, "js")), outputText);
}
"""


def _go(folder: Path, _: str) -> None:
    # Without the paths of the folder the packages that have not changed come from Go's cache, whatever the copy.
    call(folder, tools.go(), "build", "-trimpath", "-ldflags=-s -w", "-o", GO_SDK.result, "./conformance")


def _typescript(folder: Path, file: str) -> None:
    """Compiles the file alone, without a check of types, and the one of the mutant before, which is as it was again."""
    note = folder / ".changed"
    files = sorted({file, note.read_text() if note.exists() else file})
    note.write_text(file)
    call(folder, "node", "-e", TRANSPILE, *files)


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


def see_rest(build: Build) -> None:
    """Lets a built SDK see the parts of the repository that its build and its tests read, at the same places beside it."""
    for part in ("docs", "protos"):
        link = build.target.parents[1] / part
        made = link.with_name(f"{part}.{os.getpid()}")
        made.unlink(missing_ok=True)
        made.symlink_to(ROOT / part)
        made.replace(link)  # in one step: other tests make the same links at the same time
