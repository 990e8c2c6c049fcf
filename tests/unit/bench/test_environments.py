"""An installation is made once, and one that cannot be made says why."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from tests.bench.environments import GoProgram, Installation, NodePackage, NotInstalled
from tests.bench.peers_compare import INSTALLATIONS, names_of_peers
from tests.interop import cache


class Command(Installation):
    """Runs its packages as Python code."""

    @override
    def _commands(self) -> Iterator[list[str]]:
        for code in self.packages:
            yield [sys.executable, "-c", code]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "tools")
    return tmp_path


def test_an_installation_is_made_once(empty_cache: Path) -> None:
    installation = Command("once", (f"open({str(empty_cache / 'made')!r}, 'a').write('.')",))
    installation.provide()
    installation.provide()
    assert installation.is_complete
    assert (empty_cache / "made").read_text() == "."


def test_a_failed_installation_says_why_and_is_tried_again() -> None:
    failing = Command("failing", ("raise SystemExit('no such package')",))
    for _ in range(2):
        with pytest.raises(NotInstalled, match="no such package"):
            failing.provide()
    assert not failing.is_complete


@pytest.mark.parametrize(
    ("installation", "program"),
    [(NodePackage("one", ("@scope/one@1.0.0",)), "npm"), (GoProgram("two", ("example.org/two@v1.0.0",)), "go")],
)
def test_an_installation_without_its_installer_names_it(
    installation: Installation, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("tests.fixtures.require.TOOLS", Path("/nonexistent"))
    with pytest.raises(NotInstalled, match=program):
        installation.provide()


def test_peers_are_named_in_any_case() -> None:
    assert names_of_peers("restate, TEMPORAL") == ["Restate", "Temporal"]
    assert names_of_peers(",".join(INSTALLATIONS)) == list(INSTALLATIONS)


def test_an_unknown_peer_is_refused_with_the_known_peers() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="unknown peer 'unknown'; known: Archon, AutoGen"):
        names_of_peers("Restate,unknown")
