"""Finds imports of private names: users read what docs and examples import, and packages stand on public names only.
Finds classes of the stubs in public signatures, which are plain types.

python .ci/public.py [ROOT]    exit 1 and `file:line: message` for each finding

In README.md, docs and examples, names come from the modules of docs/reference/python.md, which have them there, or from
the stubs. In the packages no name, and no module, that begins with an underscore is imported from another package.

No parameter, result, field or property of a name on that page has a class of the stubs in its type, also by an alias;
`proto` and `from_proto` do.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PAGE = "docs/reference/python.md"
SHOWN = ("README.md", "docs/**/*.md", "examples/**/*.md", "examples/**/*.py")
PACKAGES = {
    "archon": "sdk/python/archon",
    "archon_mesh": "mesh/archon_mesh",
    "archon_services": "services/archon_services",
}
STUBS = "archon.api."
MESSAGES = ("proto", "from_proto")
"""Members and parameters that have a message in their type."""

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


@dataclass
class Source:
    """A module as its text says it: what it defines, and where it imports names from, `import x as y` with no name."""

    path: Path
    defined: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


class Signatures:
    """Follows names through the modules below a root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sources: dict[str, Source | None] = {}

    def check(self, public: dict[str, set[str]]) -> Iterator[str]:
        """Yields a finding for each annotation of a public name that has a class of the stubs."""
        found: dict[str, None] = {}  # a name may be public in several modules
        for module, names in public.items():
            for name in sorted(names):
                found.update(dict.fromkeys(self._name(module, name)))
        yield from found

    def _name(self, module: str, name: str) -> Iterator[str]:
        for source, statement in self._definitions(module, name):
            if isinstance(statement, ast.ClassDef):
                yield from self._class(source, statement, name)
            else:
                yield from self._statement(source, statement, name)

    def _class(self, source: Source, statement: ast.ClassDef, name: str) -> Iterator[str]:
        """Checks the members of a class, those that it inherits from the packages included."""
        for member in statement.body:
            yield from self._statement(source, member, name)
        for base in statement.bases:
            for other, inherited in self._resolve(source, base.value if isinstance(base, ast.Subscript) else base):
                if isinstance(inherited, ast.ClassDef):
                    yield from self._class(other, inherited, name)

    def _statement(self, source: Source, statement: ast.stmt, owner: str) -> Iterator[str]:
        name, annotations = "", list[ast.expr | None]()
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name, arguments = statement.name, statement.args
                every = [
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    arguments.vararg,
                    arguments.kwarg,
                ]
                annotations = [each.annotation for each in every if each is not None and each.arg not in MESSAGES]
                annotations.append(statement.returns)
                if name == "__init__":
                    for each in ast.walk(statement):
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Attribute):
                            annotations += [] if each.target.attr.startswith("_") else [each.annotation]
            case ast.AnnAssign(target=ast.Name(id=name)):
                annotations = [statement.annotation]
            case ast.Assign(targets=[ast.Name(id=name)]) if _is_type(statement.value):
                annotations = [statement.value]
        if name in MESSAGES or (name.startswith("_") and not name.endswith("__")):
            return
        where = f"{source.path.relative_to(self._root).as_posix()}:{statement.lineno}"
        shown = owner if name == owner else f"{owner}.{name}"
        for annotation in filter(None, annotations):
            for stub in self._stubs(source, annotation, set()):
                yield f"{where}: {shown} has {stub} of the stubs in its signature"

    def _stubs(self, source: Source, annotation: ast.expr, seen: set[str]) -> Iterator[str]:
        """Yields the names of the stubs in a type, and in the aliases in it."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                try:
                    yield from self._stubs(source, ast.parse(node.value, mode="eval").body, seen)
                except SyntaxError:
                    continue
            if not isinstance(node, ast.Name):
                continue
            if f"{source.imported.get(node.id, ('',))[0]}.".startswith(STUBS):
                yield node.id
            elif (key := f"{source.path}:{node.id}") not in seen:
                seen.add(key)
                for other, statement in self._resolve(source, node):
                    if (
                        isinstance(statement, ast.Assign | ast.AnnAssign)
                        and statement.value
                        and _is_type(statement.value)
                    ):
                        yield from self._stubs(other, statement.value, seen)

    def _resolve(self, source: Source, node: ast.expr) -> Iterator[tuple[Source, ast.stmt]]:
        """Yields the definitions that a name in a module means."""
        if isinstance(node, ast.Name):
            if node.id in source.defined:
                yield from ((source, statement) for statement in source.defined[node.id])
            elif node.id in source.imported:
                yield from self._definitions(*source.imported[node.id])

    def _definitions(self, module: str, name: str) -> Iterator[tuple[Source, ast.stmt]]:
        source = self._source(module)
        while source is not None and name not in source.defined and name in source.imported:
            module, name = source.imported[name]
            source = self._source(module)
        if source is not None:
            yield from ((source, statement) for statement in source.defined.get(name, ()))

    def _source(self, module: str) -> Source | None:
        if module not in self._sources:
            package, _, rest = module.partition(".")
            path = self._root / PACKAGES.get(package, package) / rest.replace(".", "/")
            found = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()]
            self._sources[module] = _read(found[0]) if found and package in PACKAGES else None
        return self._sources[module]


def _read(path: Path) -> Source:
    source, tree = Source(path), ast.parse(path.read_text())
    for statement in tree.body:
        match statement:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                source.defined.setdefault(name, []).append(statement)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                source.defined.setdefault(name, []).append(statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            source.imported.update({each.asname or each.name: (node.module, each.name) for each in node.names})
        elif isinstance(node, ast.Import):
            source.imported.update(
                {(each.asname or each.name).partition(".")[0]: (each.name, "") for each in node.names}
            )
    return source


def _is_type(value: ast.expr) -> bool:
    """Whether an assigned value may be a type: a name, a union, or what has arguments in brackets."""
    return isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp)


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = [*check(root), *Signatures(root).check(public_names((root / PAGE).read_text()))]
    if found:
        print(*found, f"hint: {PAGE} lists what is public", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
