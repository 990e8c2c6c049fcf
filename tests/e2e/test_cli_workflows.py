"""`archon workflow` on a mesh in the background: the role starts when it is needed, and a person approves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archon_services.local_mesh import Home
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

CHECK = """
name: check
description: Writes requirements for some parts after an approval
parameters:
  parts: {type: list}
  ask: {type: boolean, default: false}
steps:
  - if: "{{ ask }}"
    then:
      - approve: "Begin with {{ parts[0] }}?"
  - for_each: "{{ parts }}"
    steps:
      - role: requirements
        task: "The {{ item }} must be safe."
    save_as: found
  - role: requirements
    task: "All {{ found | length }} parts must be tested."
"""


ONLY = ("--only", "registry,memory,orchestrator,requirements")


def write_workflow(home: Path) -> None:
    folder = home / "workflows"
    folder.mkdir(parents=True)
    (folder / "check.yaml").write_text(CHECK)


def names(terminal: Terminal) -> set[str]:
    return {process.name for process in terminal.state().processes}


@pytest.mark.slow
def test_a_workflow_runs_and_its_role_starts_when_it_is_needed(terminal: Terminal) -> None:
    write_workflow(terminal.home)
    listed = terminal.archon("workflow", "list")
    assert "check" in listed.out, listed.err
    wrong = terminal.archon("workflow", "run", "check", "-p", "parts=3")
    assert (wrong.code, wrong.out) == (2, "")
    assert "parts: must be a list" in wrong.err
    assert "workflow-1" not in names(terminal)
    ran = terminal.archon("workflow", "run", "check", "-p", 'parts=["door", "lock"]', "--quiet")
    assert ran.code == 0, ran.err
    assert "2 parts" in ran.out
    assert "workflow-1" in names(terminal)
    shown = terminal.archon("show", "last", "--no-answer")
    assert "requirements (found-2/step-1)" in shown.out, shown.out
    asked = terminal.archon("ask", 'check parts=["door", "bolt"]', "--user", "ana", "--metadata", "ticket=4711")
    assert asked.code == 0, asked.err
    assert asked.error_lines[0] == "running the workflow check@1, which fits the query best"
    assert "2 parts" in asked.out
    metadata = json.loads(terminal.archon("show", "last", "--json").out)["metadata"]
    assert metadata == {"dev.archon/user": "ana", "dev.archon/workflow": "check@1", "ticket": "4711"}
    refused = terminal.archon("workflow", "record", "last")
    assert refused.code == 1
    assert "made by the workflow check@1" in refused.err
    assert Home(terminal.home).workflow_role.exists()
    assert terminal.archon("scale", "workflow=0").code == 0
    assert not Home(terminal.home).workflow_role.exists()


@pytest.mark.slow
def test_a_workflow_waits_for_its_approval_over_down_and_up(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "home")
    write_workflow(terminal.home)
    try:
        up = terminal.archon("up", *ONLY, "--detach")
        assert up.code == 0, up.err
        started = terminal.archon("workflow", "run", "check", "-p", 'parts=["door"]', "-p", "ask=true", "--detach")
        assert started.code == 0, started.err
        run_id = started.out.strip()
        wait_until(lambda: run_id in terminal.archon("inbox", "--json").out, within=PATIENCE)
        down = terminal.archon("down")
        assert down.code == 0, down.err
        again = terminal.archon("up", *ONLY, "--detach")
        assert again.code == 0, again.err
        assert "workflow-1" in names(terminal)
        answered = terminal.archon("respond", run_id, "approve")
        assert answered.code == 0, answered.err
        ended = terminal.archon("watch", run_id)
        assert ended.code == 0, ended.err
    finally:
        terminal.archon("down")
        assert not terminal.processes()
