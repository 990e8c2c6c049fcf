"""Finds imports of private names: users read what docs and examples import, and packages stand on public names only.

python .ci/public.py [ROOT]    exit 1 and `file:line: message` for each finding

In README.md, docs and examples, names come from the modules of docs/reference/python.md, which have them there, or from
the stubs. In the packages no name, and no module, that begins with an underscore is imported from another package.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = "docs/reference/python.md"
SHOWN = ("README.md", "docs/**/*.md", "examples/**/*.md", "examples/**/*.py")
PACKAGES = {
    "archon": "sdk/python/archon",
    "archon_mesh": "mesh/archon_mesh",
    "archon_services": "services/archon_services",
}
STUBS = "archon.api."
_MODULE = re.compile(r"^## `([\w.]+)`$")
_NAME = re.compile(r"`(\w+)`")
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.M | re.S)


def public_names(page: str) -> dict[str, set[str]]:
    """Returns the names of each module that the page lists."""
    names: dict[str, set[str]] = {}
    module = ""
    for line in page.splitlines():
        if match := _MODULE.match(line):
            module = match[1]
            names[module] = set()
        elif module:
            names[module] |= set(_NAME.findall(line))
    return names


def check(root: Path) -> Iterator[str]:
    """Yields a finding for each private import below `root`."""
    public = public_names((root / PAGE).read_text())
    for pattern in SHOWN:
        for path in sorted(root.glob(pattern)):
            for line, tree in _trees(path):
                for number, module, names in _imports(tree):
                    for problem in _shown(public, module, names):
                        yield f"{path.relative_to(root).as_posix()}:{line + number}: {problem}"
    for package, folder in PACKAGES.items():
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text()
            if "._" in text or "import _" in text or ", _" in text:
                for number, module, names in _imports(ast.parse(text)):
                    for problem in _across(package, module, names):
                        yield f"{path.relative_to(root).as_posix()}:{number}: {problem}"


def _trees(path: Path) -> Iterator[tuple[int, ast.Module]]:
    """Yields the Python of a file, with the number of lines before it; a block that is no complete code has none."""
    text = path.read_text()
    if path.suffix == ".py":
        yield 0, ast.parse(text)
        return
    for match in _BLOCK.finditer(text):
        lines = [line.removeprefix(match[1]) for line in match[2].splitlines()]
        try:
            yield text[: match.start(2)].count("\n"), ast.parse("\n".join(lines))
        except SyntaxError:
            continue


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, list[str]]]:
    """Yields line, module and names of each import; no names for `import module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module, [alias.name for alias in node.names]


def _shown(public: dict[str, set[str]], module: str, names: list[str]) -> Iterator[str]:
    if module.partition(".")[0] not in PACKAGES or module.startswith(STUBS):
        return
    if module not in public:
        if not (names and all(f"{module}.{name}" in public for name in names)):
            yield f"{module} is no public module"
        return
    for name in names:
        if name not in public[module] and f"{module}.{name}" not in public:
            yield f"{name} is no public name of {module}"


def _across(package: str, module: str, names: list[str]) -> Iterator[str]:
    other = module.partition(".")[0]
    if other in PACKAGES and other != package:
        for name in (*module.split("."), *names):
            if name.startswith("_") and not name.startswith("__"):
                yield f"{name} of {module} is private to the package {other}"


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(check(root))
    if found:
        print(*found, f"hint: {PAGE} lists what is public", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
