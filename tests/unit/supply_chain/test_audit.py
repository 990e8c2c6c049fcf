"""The audit of dependencies: silence of a database is no clean answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.supply_chain.audit import Ended, Outcome, go_module, npm_package, python_packages, tracked
from tests.supply_chain.lockfile import ROOT


class Tool:
    """Answers each call of a program in the same way, and keeps the commands."""

    def __init__(self, code: int, stdout: Any = "", stderr: str = "") -> None:
        self._ended = Ended(code, stdout if isinstance(stdout, str) else json.dumps(stdout), stderr)
        self.commands: list[Sequence[str]] = []

    def __call__(self, folder: Path, command: Sequence[str]) -> Ended:
        self.commands.append(command)
        return self._ended


def packages(**more: Any) -> dict[str, Any]:
    return {"dependencies": [{"name": "a", "version": "1", "vulns": []} | more]}


def test_a_package_that_the_database_does_not_know_is_not_clean() -> None:
    tool = Tool(0, {"dependencies": [{"name": "a", "skip_reason": "not found"}]})
    answer = python_packages(tool)
    assert answer.outcome is Outcome.UNKNOWN
    assert "PyPI" in answer.lines[0] and "OSV" in answer.lines[1]
    assert [command[command.index("--vulnerability-service") + 1] for command in tool.commands] == ["pypi", "osv"]


def test_python_packages_are_clean_or_named_with_their_fix() -> None:
    assert python_packages(Tool(0, packages())).outcome is Outcome.CLEAN
    found = python_packages(Tool(1, packages(vulns=[{"id": "PYSEC-1", "fix_versions": ["2"]}])))
    assert found.outcome is Outcome.VULNERABLE
    assert found.lines == ("a 1: PYSEC-1, fixed in 2",)


@pytest.mark.parametrize("text", ["", "no json", "[]"])
def test_an_unreachable_database_is_named_in_one_sentence(text: str) -> None:
    for ask in (go_module, npm_package):
        answer = ask(Tool(1, text, "first\ndial: no such host\n"), ROOT)
        assert answer.outcome is Outcome.UNKNOWN
        [line] = answer.lines
        assert "could not reach" in line and line.endswith("dial: no such host")


def test_findings_of_go_and_npm_are_named() -> None:
    messages = [{"config": {}}, {"finding": {"osv": "GO-1"}}, {"finding": {"osv": "GO-1"}}]
    go = go_module(Tool(0, "\n".join(map(json.dumps, messages))), ROOT)
    assert (go.outcome, go.lines) == (Outcome.VULNERABLE, (".: GO-1",))
    assert go_module(Tool(0, json.dumps({"config": {}})), ROOT).outcome is Outcome.CLEAN
    report = {"metadata": {}, "vulnerabilities": {"ws": {"severity": "high"}}}
    assert npm_package(Tool(1, report), ROOT).lines == (".: ws, high",)


def is_fetched(name: str, item: Mapping[str, object]) -> bool:
    """Whether a package of a lock comes from a registry: neither the project itself, nor a folder of this repository."""
    return bool(name) and not name.startswith("../") and not item.get("link")


def test_each_go_and_npm_project_is_locked_with_checksums() -> None:
    for folder in tracked("go.mod"):
        assert (folder / "go.sum").exists(), folder
    for folder in tracked("package.json"):
        lock = json.loads((folder / "package-lock.json").read_text())
        assert [
            name for name, item in lock["packages"].items() if is_fetched(name, item) and "integrity" not in item
        ] == [], folder
