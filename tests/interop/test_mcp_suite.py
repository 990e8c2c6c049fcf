"""How the results of the MCP conformance suite are read, and which Node runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fixtures import require
from tests.interop import node22
from tests.interop.mcp.suite import Outcome, expected_failures, read_results


def write(folder: Path, name: str, **statuses: str) -> None:
    """Writes the results of a scenario as the suite does."""
    path = folder / f"{name}-2026-01-02T03-04-05-678Z" / "checks.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps([{"id": id, "status": status} for id, status in statuses.items()]))


def test_results_are_read_by_scenario_and_check(tmp_path: Path) -> None:
    write(tmp_path, "server-ping", works="SUCCESS", quick="WARNING")
    write(tmp_path, "server-server-stateless", a="FAILURE", b="SKIPPED", c="SUCCESS")
    outcome = read_results(tmp_path, "server")
    assert outcome.scenarios == {"ping", "server-stateless"}
    assert (set(outcome.failed), outcome.passed) == ({"ping:quick", "server-stateless:a"}, 2)


def test_scenario_in_a_folder_keeps_its_name(tmp_path: Path) -> None:
    write(tmp_path, "auth/dpop", proof="FAILURE")
    assert set(read_results(tmp_path, "client").failed) == {"auth/dpop:proof"}


@pytest.mark.parametrize(
    ("listed", "unexpected"),
    [
        ([], {"a:1", "b:1"}),
        (["a"], {"b:1"}),
        (["a:1", "b:1"], set()),
        (["a:2", "b"], {"a:1", "a:2"}),
        (["a", "b", "c"], {"c"}),
        (["a", "b", "not-run"], set()),
    ],
)
def test_unlisted_failures_and_listed_passes_are_unexpected(listed: list[str], unexpected: set[str]) -> None:
    outcome = Outcome({"a", "b", "c"}, {"a:1": "no", "b:1": "no"}, 5)
    assert set(outcome.unexpected(listed)) == unexpected


def test_only_checks_of_extensions_are_expected_to_fail() -> None:
    assert all(entry.startswith("tasks-") for entry in expected_failures("server"))
    assert all(entry.startswith(("auth/dpop", "auth/wif-")) for entry in expected_failures("client"))


def test_node_is_one_of_version_22_or_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = tmp_path / "node"
    monkeypatch.setattr(require, "find", lambda program: node)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for version, path in (("v20.20.2", None), ("v22.0.0", node), ("v100.1.0", node), ("none", None)):
        node.write_text(f"#!/bin/sh\necho {version}\n")
        node.chmod(0o755)
        node22.find.cache_clear()
        assert node22.find() == path, version
    node22.find.cache_clear()
