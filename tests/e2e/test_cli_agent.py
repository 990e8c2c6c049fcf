"""Strategy agent on the command line, on the shared mesh of real processes: the coordinator and the three roles."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from archon_mesh.core.awareness import awareness_message
from tests.e2e.shared_mesh import GOAL
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

ROLES = ["requirements", "designer", "implementer"]
EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]


def test_coordinator_delegates_once_per_role_in_order(terminal: Terminal) -> None:
    result = terminal.archon("run", "--strategy", "agent", GOAL)
    assert result.code == 0, result.err
    places = [result.out.index(f"## {role}\n") for role in ROLES]
    assert places == sorted(places)
    assert "R2. Users should see a history." in result.out
    assert "From requirements: R1. It must sync across devices. R2. Users should see a history." in result.out
    lines = [line for line in result.error_lines if "delegates to" in line]
    assert [line.split("delegates to ")[1].split(":")[0] for line in lines] == ROLES
    rows = result.out[result.out.index("role  ") :].splitlines()[1:5]
    assert [row.split()[0] for row in rows] == ["coordinator", *ROLES]
    assert [row.startswith("  ") for row in rows] == [False, True, True, True]


def test_show_nests_delegations_and_watch_repeats_them(terminal: Terminal, delegated: str) -> None:
    shown = terminal.archon("show", delegated, "--no-answer").out
    assert "  strategy    agent\n" in shown
    tree = shown[shown.index("└──") :].splitlines()
    assert [line.split()[1] for line in tree] == ["coordinator", *ROLES]
    assert all(line.startswith("    ") for line in tree[1:])
    lines = terminal.archon("watch", delegated).error_lines
    assert sum("coordinator    delegates to" in line for line in lines) == 3
    run = json.loads(terminal.archon("show", delegated, "--json").out)
    assert [answer["role"] for answer in run["answers"]] == ["coordinator"]


def test_prompts_prints_awareness_message_tools_and_calls(terminal: Terminal, delegated: str) -> None:
    records = json.loads(terminal.archon("prompts", delegated, "--role", "coordinator", "--json").out)
    assert len(records) == 4
    messages = records[-1]["request"]["messages"]
    assert [message["role"] for message in messages] == ["system", "system", "user", *["assistant", "tool"] * 3]
    assert messages[1]["content"] == awareness_message(EDGES, ROLES)
    assert [tool["function"]["name"] for tool in records[0]["request"]["tools"]] == ROLES
    text = terminal.archon("prompts", delegated, "--role", "coordinator").out
    assert text.count("--- 2 system: awareness of other roles, ~") == 4
    assert text.count(f" tokens ---\n{awareness_message(EDGES, ROLES)}\n--- 3 user: input of the task, ~") == 4
    assert text.count("--- available tools: requirements, designer, implementer ---") == 4
    assert f"calls designer (call_2)\n    task: {GOAL}\n--- 7 tool: result of designer (call_2), ~" in text
    assert [message["origin"] for message in records[1]["messages"]] == [
        *("system_prompt", "awareness", "input", "step", "tool_result")
    ]
    designers = json.loads(terminal.archon("prompts", delegated, "--role", "designer", "--json").out)
    assert "Shared context from requirements:" in designers[0]["request"]["messages"][1]["content"]
    assert designers[0]["messages"][1]["label"] == "shared context v1 of requirements"
    assert [record["warnings"] for record in (*records, *designers)] == [[]] * 5


def test_prompts_warns_near_the_context_window(terminal: Terminal, finished: str) -> None:
    near, far = (
        json.loads(terminal.archon("prompts", finished, "--window", window, "--json").out)[0]
        for window in ("100", "100000")
    )
    assert (near["context_window"], far["warnings"]) == (100, [])
    assert near["warnings"][0].startswith("near the limit: ~")


def test_trace_shows_delegations_below_their_caller(terminal: Terminal, delegated: str) -> None:
    data = json.loads(terminal.archon("trace", delegated, "--json").out)
    (coordinator,) = [span for span in data["spans"] if span["kind"] == "attempt"]
    delegations = [span for span in coordinator["spans"] if span["kind"] == "delegation"]
    assert [span["name"] for span in delegations] == ROLES
    below = [[span["name"] for span in delegation["spans"] if span["kind"] == "attempt"] for delegation in delegations]
    assert below == [[role] for role in ROLES]
    assert sum(span["kind"] == "model" for span in coordinator["spans"]) == 4
    assert sum(step["seconds"] for step in data["critical_path"]) == pytest.approx(data["seconds"], abs=1e-4)
    assert data["notes"] == []


def test_single_role_runs_as_an_agent_by_default(terminal: Terminal) -> None:
    assert terminal.archon("run", "--role", "requirements", GOAL, "--quiet").code == 0
    assert json.loads(terminal.archon("show", "last", "--json").out)["strategy"] == "STRATEGY_AGENT"
    assert terminal.archon("run", "--role", "requirements", "--strategy", "pipeline", GOAL, "--quiet").code == 0
    assert json.loads(terminal.archon("show", "last", "--json").out)["strategy"] == "STRATEGY_PIPELINE"


def test_run_with_insufficient_budget_fails(terminal: Terminal) -> None:
    result = terminal.archon("run", "--strategy", "agent", "--budget-tokens", "2000", GOAL)
    assert result.code == 1
    summary, hint = result.out.splitlines()[-2:]
    assert "budget" in summary
    assert hint.startswith("hint: `archon rerun ")
    assert any("budget request denied" in line for line in result.error_lines)


@pytest.mark.slow
def test_killed_coordinator_reuses_its_delegations(terminal: Terminal) -> None:
    designers = [terminal.pid("designer-1"), terminal.pid("designer-2")]
    before = terminal.state().process("coordinator-1").restarts
    try:
        for designer in designers:
            os.kill(designer, signal.SIGSTOP)
        with terminal.start("run", "--strategy", "agent", GOAL) as running:
            running.until("delegates to designer")
            os.kill(terminal.pid("coordinator-1"), signal.SIGKILL)
            wait_until(lambda: terminal.state().process("coordinator-1").restarts > before, within=PATIENCE)
            for designer in designers:
                os.kill(designer, signal.SIGCONT)
            running.until("completed after")
            assert running.end() == 0
            assert "delegates to designer again: reuses the existing task" in running.text
    finally:
        for designer in designers:
            os.kill(designer, signal.SIGCONT)
    for role, calls in {"requirements": 1, "designer": 1, "coordinator": 4}.items():
        records = json.loads(terminal.archon("prompts", "last", "--role", role, "--json").out)
        assert len(records) == calls, f"a model call of {role} was repeated"
    text = terminal.archon("trace", "last", "--width", "140").out
    assert "coordinator (lost)" in text and "* coordinator #2" in text
    assert "reuses the task of an earlier delegation" in text


CLERK = "name: {name}\nmodel: offline\nmemory: {{long_term: true}}\n"


def test_a_served_file_remembers_in_the_memory_of_its_mesh(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "clerk.yaml").write_text(CLERK.format(name="recaller"))
    preference = "I only fly with window seats."
    with terminal.start("serve", str(tmp_path / "clerk.yaml")) as serving:
        wait_until(lambda: "recaller" in terminal.archon("agents").out, within=PATIENCE)
        told = terminal.archon("run", preference, "--role", "recaller", "--user", "window-ana", "--quiet")
        assert told.code == 0, told.err
        search = ("memory", "search", "window seats", "--user", "window-ana", "--json")
        wait_until(lambda: preference in terminal.archon(*search).out, within=PATIENCE)
        assert preference not in terminal.archon("memory", "search", "window seats", "--user", "bo", "--json").out
        assert "Memories deleted: " in terminal.archon("memory", "forget", "--user", "window-ana").out
        assert preference not in terminal.archon(*search).out
        assert "note: " not in serving.text
    assert not (terminal.home / "agent_memory.db").exists()


def test_a_file_that_is_served_without_a_memory_service_says_so(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "clerk.yaml").write_text(CLERK.format(name="loner"))
    token = terminal.archon("token", "--role", "loner").out.strip()
    elsewhere = Terminal(tmp_path / "home", ARCHON_REGISTRY=terminal.state().registry, ARCHON_TOKEN=token)
    with elsewhere.start("serve", str(tmp_path / "clerk.yaml")) as serving:
        serving.until("note: the memory service beside the registry")
        wait_until(lambda: "loner" in terminal.archon("agents").out, within=PATIENCE)
