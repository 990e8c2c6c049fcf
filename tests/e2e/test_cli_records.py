"""`archon trace`, `prompts`, `show` and `rerun` over runs whose calls are recorded without contents or not at all, and
over runs whose events were removed by retention."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

GOAL = "Build a todo app. It must sync across devices."


@pytest.mark.parametrize("mode", ["redacted", "off"])
def test_commands_work_without_contents_of_calls(tmp_path: Path, mode: str) -> None:
    with small_mesh(tmp_path, *PIPELINE, ARCHON_RECORDS=mode) as terminal:
        assert terminal.archon("run", GOAL, "--quiet").code == 0
        assert "completed" in terminal.archon("show", "last").out
        assert_prompts(terminal, mode)
        data = json.loads(terminal.archon("trace", "last", "--json").out)
        calls = [span for attempt in data["spans"] for span in attempt["spans"]]
        assert len(calls) == (3 if mode == "redacted" else 0)
        assert len(data["notes"]) == (0 if mode == "redacted" else 3)
        assert data["output_tokens"] > 0
        result = terminal.archon("rerun", "last")
        assert result.code in (0, 1)


def assert_prompts(terminal: Terminal, mode: str) -> None:
    text = terminal.archon("prompts", "last").out
    assert "sync" not in text
    if mode == "off":
        assert text.startswith("No model calls are recorded of the 3 model calls of this run.")
        return
    assert "--- 2 system: shared context v1 of requirements, ~" in text
    assert "[redacted: " in text
    assert "warning" not in text


def test_trace_of_a_deleted_run_says_what_is_missing(tmp_path: Path) -> None:
    with small_mesh(tmp_path, *PIPELINE, ARCHON_COMPACT_AFTER="1") as terminal:
        assert terminal.archon("run", GOAL, "--quiet").code == 0
        wait_until(lambda: "were removed by retention" in terminal.archon("trace", "last").out, within=PATIENCE)
        data = json.loads(terminal.archon("trace", "last", "--json").out)
        attempts = [span["name"] for span in data["spans"] if span["kind"] == "attempt"]
        assert attempts == ["requirements", "designer", "implementer"]
        assert terminal.archon("trace", "last", "--format", "svg").out.startswith("<svg")
        result = terminal.archon("prompts", "last")
        assert result.code == 1
        assert re.fullmatch(
            r"error: the details of run \w+ were removed by retention\nhint: `archon show` prints its summary\..*\n",
            result.err,
        )
