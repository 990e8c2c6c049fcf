"""docs/troubleshooting.md quotes messages that the code prints, and names commands and variables that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import typer.main

from archon_services.cli.checks.environment import known_variables
from archon_services.cli.main import app

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SOURCES = ("sdk/python/archon", "mesh", "services")
PART = "\0"
"""Stands for a part of a message that differs: `<...>` on the page; `{...}` in an f-string, `%s` in a line of a log."""

MESSAGES = [
    line for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines() if line
]
COMMANDS = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines() if line
]


def template(node: ast.AST) -> str:
    """Returns the text of a string or an f-string; empty for any other node."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("%s", PART)
    if isinstance(node, ast.JoinedStr):
        texts = [str(value.value) if isinstance(value, ast.Constant) else PART for value in node.values]
        return re.sub(f"{PART}+", PART, "".join(texts))
    return ""


@cache
def sources() -> list[str]:
    """Returns the texts of the sources."""
    paths = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")]
    return [path.read_text() for path in paths if "archon/api/" not in path.as_posix()]


@cache
def templates(source: str) -> frozenset[str]:
    """Returns the texts of all strings in a source, without docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return frozenset(template(node) for node in nodes if id(node) not in docstrings)


def printed(message: str) -> bool:
    """Returns whether a message is part of a string of the sources."""
    text = re.sub(r"<[^>]*>", PART, re.sub(r"^(error|hint): ", "", message)).rstrip(".")
    # No word is split in a source, other than a text: the sources with all words of the message are few.
    words = set(re.findall(r"\w+", text))
    candidates = (source for source in sources() if all(word in source for word in words))
    return any(text in candidate for source in candidates for candidate in templates(source))


def test_each_quoted_message_is_in_the_sources() -> None:
    assert [message for message in MESSAGES if not printed(message)] == []


def test_a_message_that_no_code_prints_is_noticed() -> None:
    assert len(MESSAGES) > 30
    assert not printed("error: no mesh is walking in <folder>")


def test_each_command_and_option_exists() -> None:
    group: Any = typer.main.get_command(app)
    used = re.findall(r"\barchon ([a-z]+)((?: [^\s`&|]+)*)", "\n".join([*COMMANDS, *re.findall(r"`(.+?)`", PAGE)]))
    assert len(used) > 20
    for name, arguments in used:
        command = group.get_command(None, name)
        options = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", arguments)) <= options, name


def test_each_variable_exists() -> None:
    assert set(re.findall(r"\bARCHON_[A-Z_]+", PAGE)) <= known_variables()


def test_each_section_has_a_message_a_cause_and_a_command() -> None:
    sections = PAGE.split("\n## ")[1:]
    assert len(sections) >= 11
    for section in sections:
        assert "**Cause**" in section, section
        assert "```sh\n" in section, section
