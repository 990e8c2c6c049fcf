"""What docs and messages say about installing: extras that exist, and no index that does not have Archon."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
SOURCES = [path for folder in ("sdk", "mesh", "services", "examples") for path in (ROOT / folder).rglob("*.py")]
NAMED = re.compile(r"(?:archon-mesh|'\.)\[([a-z, -]+)\]")
IMPORTED = re.compile(r"import_extra\(\s*\"[\w.]+\",\s*\"([\w-]+)\"\)")


def named(path: Path) -> set[str]:
    """Returns the extras that a file names."""
    text = path.read_text()
    lists = [*NAMED.findall(text), *IMPORTED.findall(text)]
    return {extra.strip() for names in lists for extra in names.split(",")}


def test_each_extra_that_is_named_exists() -> None:
    found = {path.name: names for path in (*PAGES, *SOURCES) if (names := named(path))}
    assert len(found) > 8
    assert {name: names - EXTRAS for name, names in found.items() if names - EXTRAS} == {}


def test_pages_install_from_a_clone_or_a_git_server() -> None:
    for page in PAGES:
        text = page.read_text().replace("Once it is installed, `pip install 'archon-mesh[mcp]'`", "")
        assert re.findall(r"pip install '?archon-mesh(?!\[[a-z,]+\] @ git\+)", text) == [], page
