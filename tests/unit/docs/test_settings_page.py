"""docs/reference/settings.md is what the code gives, and has every variable that the code names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Gt, Le

from archon_services.cli.checks.environment import known_variables
from tests.unit.docs import settings_page, tables

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"\bARCHON_[A-Z][A-Z0-9_]*[A-Z0-9]\b")
FOLDERS = ("sdk/python/archon", "mesh", "services", "deploy", "docs", "examples")


def names(text: str) -> set[str]:
    """Returns the variables in a text."""
    return set(NAME.findall(text))


def listed() -> set[str]:
    return set(re.findall(r"^\| `(ARCHON_\w+)` \|", settings_page.PAGE.read_text(), re.M))


def test_the_page_is_what_the_code_gives() -> None:
    assert settings_page.PAGE.read_text() == settings_page.page(), "run: python -m tests.unit.docs.settings_page"


def test_each_variable_in_code_and_documentation_is_listed() -> None:
    found = {
        name: path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yaml", ".md"} or path.name == "Dockerfile"
        for name in names(path.read_text())
    }
    assert len(found) > 30
    missing = {name: path for name, path in found.items() if name not in listed()}
    assert not missing, "add them to archon_services.common.variables, or to the settings of a service"


def test_doctor_knows_each_variable_of_the_page() -> None:
    assert listed() == known_variables()


def test_each_row_has_a_meaning() -> None:
    rows = [line.split(" | ") for line in settings_page.PAGE.read_text().splitlines() if line.startswith("| `")]
    assert all(row[-1].strip(" |") for row in rows)


@pytest.mark.parametrize(
    ("annotation", "metadata", "words"),
    [
        (int, [Ge(1)], "integer, at least 1"),
        (float, [Ge(1.0), Le(3600.0)], "number, 1 to 3,600"),
        (float, [Gt(0), Le(60)], "number, above 0, at most 60"),
        (float | None, [Gt(0)], "number, above 0"),
        (Literal["a", "b"], [], "`a`, `b`"),
        (dict[str, Annotated[int, Ge(0)]], [], "mapping of integer, at least 0"),
    ],
)
def test_a_type_is_described_in_words(annotation: object, metadata: list[object], words: str) -> None:
    assert tables.kind_of(annotation, metadata) == words
