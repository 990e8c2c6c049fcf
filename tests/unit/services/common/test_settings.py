"""Settings: precedence of flags, environment, file and defaults; errors that name the value and its source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from archon.errors import InvalidArgument
from archon_services.common.settings import load
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.settings import OrchestratorSettings

FILE = """
common: {log_level: warning, max_runs: 9}
orchestrator: {port: 7001, journal_sync: normal}
registry: {port: 7002}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "archon.yaml"
    path.write_text(FILE)
    monkeypatch.setenv("ARCHON_CONFIG", str(path))
    return path


def test_flags_precede_environment_precedes_section_and_common(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(OrchestratorSettings, [])
    assert (settings.port, settings.log_level, settings.max_runs) == (7001, "warning", 9)
    monkeypatch.setenv("ARCHON_PORT", "7003")
    assert load(OrchestratorSettings, []).port == 7003
    assert load(OrchestratorSettings, ["--port", "7004"]).port == 7004


@pytest.mark.parametrize(
    ("argv", "environment", "content", "expected"),
    [
        (["--port", "http"], {}, "", ["flag --port", "'http'"]),
        ([], {"ARCHON_JOURNAL_SYNC": "maybe"}, "", ["environment variable ARCHON_JOURNAL_SYNC", "'maybe'"]),
        ([], {}, "orchestrator: {max_runs: 0}", ["configuration file", "max_runs", "0"]),
        ([], {}, "orchestrator: {colour: red}", ["configuration file", "colour"]),
        ([], {}, "orchestrator: [1]", ["one section per service"]),
        ([], {}, "orchestrator: {", ["cannot read"]),
    ],
)
def test_invalid_value_is_named_with_its_source(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    argv: list[str],
    environment: dict[str, str],
    content: str,
    expected: list[str],
) -> None:
    file.write_text(content)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidArgument) as refused:
        load(OrchestratorSettings, argv)
    for part in expected:
        assert part in str(refused.value)


def test_process_with_an_invalid_value_exits_with_code_2() -> None:
    command = [sys.executable, "-m", "archon_services.orchestrator", "--journal-sync", "maybe"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stderr.startswith("error: flag --journal-sync is 'maybe'")
    assert len(done.stderr.splitlines()) == 1


def test_kubernetes_service_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_PORT", "tcp://10.0.0.1:7100")
    assert load(OrchestratorSettings, []).port == 0


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e20", "Infinity"])
@pytest.mark.parametrize("name", ["pause_timeout", "lease", "delete_after"])
def test_a_time_that_is_no_time_is_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ARCHON_{name.upper()}", value)
    with pytest.raises(InvalidArgument, match=f"environment variable ARCHON_{name.upper()} is '{value}': "):
        load(OrchestratorSettings, [])


@pytest.mark.parametrize(("home", "folder"), [("/data", "/data"), ("", ".archon"), (None, ".archon")])
def test_default_files_are_in_the_home_of_the_mesh(
    home: str | None, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ARCHON_HOME", "ARCHON_JOURNAL", "ARCHON_DB"):
        monkeypatch.delenv(name, raising=False)
    if home is not None:
        monkeypatch.setenv("ARCHON_HOME", home)
    assert load(OrchestratorSettings, []).journal == f"{folder}/journal.db"
    assert load(MemorySettings, []).db == f"{folder}/memory.db"
