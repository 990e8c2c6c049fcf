"""Holds names and prose to docs/glossary.md: reads the table of .ci/words.md and searches for each word.

python .ci/glossary.py [ROOT]    exit 1 and `file:line: message` for each finding
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

WORDS = ".ci/words.md"
SECTION = "\n## Words not used\n"
CODE = ("sdk", "mesh", "services")
PROSE = (
    *("*.md", "docs/**/*.md", "protos/**/*.proto"),
    *("sdk/**/*.py", "mesh/**/*.py", "services/**/*.py", "tests/**/*.py"),
)
SKIPPED = (
    "sdk/python/archon/api/",
    "tests/fixtures/postgres.py",
    "tests/unit/docs/test_glossary_check.py",
    WORDS,
)
"""Generated code, the user `nobody` of the system, the tests of this check, the table itself."""

DOCSTRINGS = ("services/archon_services/", "mesh/archon_mesh/", "sdk/python/archon/")
"""Folders whose docstrings have none of the words of the kind `docstring`."""

KINDS = ("phrase", "regex", "docstring", "file", "class")
CLASS = re.compile(r"^\s*class (\w+)", re.M)
CELL = re.compile(r"(?<!\\)\|")
CODE_IN_TEXT = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Word:
    """One row of the table: a word that is not used, and what to write instead."""

    kind: str
    word: str
    instead: str

    def pattern(self) -> re.Pattern[str]:
        """Matches the word in prose; a phrase also across the end of a line, in a comment too."""
        if self.kind == "regex":
            return re.compile(self.word, re.M)
        if self.kind == "docstring":
            return re.compile(self.word.replace(" ", r"\s+"), re.I)
        return re.compile(r"\s+(?:(?:#|//)\s*)?".join(map(re.escape, self.word.split())))


def banned(root: Path) -> list[Word]:
    """Returns the words of the glossary's table. Raises ValueError if a row cannot be read or there is none."""
    section = (root / WORDS).read_text().partition(SECTION)[2].partition("\n## ")[0]
    words = []
    for row in [line for line in section.splitlines() if line.startswith("|")][2:]:
        cells = [cell.strip().replace("\\|", "|") for cell in CELL.split(row)[1:-1]]
        quoted = re.fullmatch(r"`(.+)`", cells[1]) if len(cells) == 3 else None
        if quoted is None or cells[0] not in KINDS:
            raise ValueError(f"{WORDS}: cannot read the row {row!r}")
        words.append(Word(cells[0], quoted[1], cells[2].replace("`", "")))
    if not words:
        raise ValueError(f"{WORDS}: no table below {SECTION.strip()!r}")
    return words


def check(root: Path) -> Iterator[str]:
    """Yields a finding for each use of a word of the table below `root`."""
    words = banned(root)
    files = [word for word in words if word.kind == "file"]
    classes = {word.word: word.instead for word in words if word.kind == "class"}
    prose = [(word, word.pattern()) for word in words if word.kind in ("phrase", "regex")]
    in_docstrings = [(word, word.pattern()) for word in words if word.kind == "docstring"]
    for path in sorted({path for pattern in PROSE for path in root.glob(pattern)}):
        name = path.relative_to(root).as_posix()
        if name.startswith(SKIPPED):
            continue
        text = path.read_text()
        for word, pattern in prose:
            for match in pattern.finditer(text):
                yield f"{name}:{_line(text, match.start())}: {match[0].strip()!r}: write {word.instead!r}"
        if path.suffix == ".py":
            for word in files:
                if fnmatch(name, word.word if word.word.startswith(CODE) else f"*/{word.word}"):
                    yield f"{name}:1: file name {word.word!r}: write {word.instead!r}"
            for match in CLASS.finditer(text):
                if match[1] in classes:
                    line = _line(text, match.start(1))
                    yield f"{name}:{line}: class name {match[1]!r}: write {classes[match[1]]!r}"
            if name.startswith(DOCSTRINGS):
                for line, docstring in _docstrings(text):
                    for word, pattern in in_docstrings:
                        for match in pattern.finditer(docstring):
                            where = f"{name}:{line + _line(docstring, match.start()) - 1}"
                            yield f"{where}: {match[0]!r}: write {word.instead!r}"


def _docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of modules, classes, functions and attributes, without their code, with their lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, CODE_IN_TEXT.sub(lambda code: "`" + "\n" * code[0].count("\n"), node.value.value)


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    found = list(check(root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
