"""Strategy agent on the command line, against one mesh of real processes: the coordinator and the three roles."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from archon_mesh.core.awareness import awareness_message
from tests.e2e.terminal import PATIENCE, Terminal
from tests.fixtures.waiting import wait_until

GOAL = "Build a todo app. It must sync across devices. Users should see a history."
ROLES = ["requirements", "designer", "implementer"]
EDGES = [("requirements", "designer"), ("requirements", "implementer"), ("designer", "implementer")]


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("mesh"))
    try:
        done = terminal.archon("up", "--detach")
        assert done.code == 0, done.err
        yield terminal
    finally:
        terminal.archon("down")
        assert not terminal.processes()


def test_the_coordinator_calls_each_role_once_in_order_and_loses_nothing_of_their_answers(terminal: Terminal) -> None:
    done = terminal.archon("run", "--strategy", "agent", GOAL)
    assert done.code == 0, done.err
    places = [done.out.index(f"## {role}\n") for role in ROLES]
    assert places == sorted(places)
    assert "R2. Users should see a history." in done.out
    assert "which meets R2" in done.out
    asked = [line for line in done.sentences if "delegates to" in line]
    assert [line.split("delegates to ")[1].split(":")[0] for line in asked] == ROLES
    rows = done.out[done.out.index("role  ") :].splitlines()[1:5]
    assert [row.split()[0] for row in rows] == ["coordinator", *ROLES]
    assert [row.startswith("  ") for row in rows] == [False, True, True, True]


def test_show_nests_what_was_delegated_and_watch_tells_it_again(terminal: Terminal) -> None:
    assert terminal.archon("run", "--strategy", "agent", GOAL, "--quiet").code == 0
    shown = terminal.archon("show", "last", "--no-answer").out
    assert "  strategy    agent\n" in shown
    tree = shown[shown.index("└──") :].splitlines()
    assert [line.split()[1] for line in tree] == ["coordinator", *ROLES]
    assert all(line.startswith("    ") for line in tree[1:])
    told = terminal.archon("watch", "last").sentences
    assert sum("coordinator    delegates to" in line for line in told) == 3
    run = json.loads(terminal.archon("show", "last", "--json").out)
    assert [one["role"] for one in run["answers"]] == ["coordinator"]


def test_prompts_shows_the_awareness_message_to_the_letter_the_tools_and_their_calls(terminal: Terminal) -> None:
    assert terminal.archon("run", "--strategy", "agent", GOAL, "--quiet").code == 0
    records = json.loads(terminal.archon("prompts", "last", "--role", "coordinator", "--json").out)
    assert len(records) == 4
    messages = records[-1]["request"]["messages"]
    assert [one["role"] for one in messages] == ["system", "system", "user", *["assistant", "tool"] * 3]
    assert messages[1]["content"] == awareness_message(EDGES, ROLES)
    assert [one["function"]["name"] for one in records[0]["request"]["tools"]] == ROLES
    text = terminal.archon("prompts", "last", "--role", "coordinator").out
    assert text.count(f"--- 2 system ---\n{awareness_message(EDGES, ROLES)}\n--- 3 user ---") == 4
    assert text.count("--- tools on offer: requirements, designer, implementer ---") == 4
    assert f"calls designer (call_2)\n    task: {GOAL}\n--- 7 tool, answers designer (call_2) ---\n" in text
    designers = json.loads(terminal.archon("prompts", "last", "--role", "designer", "--json").out)
    assert "Shared context from requirements:" in designers[0]["request"]["messages"][1]["content"]


def test_one_role_is_asked_as_an_agent(terminal: Terminal) -> None:
    assert terminal.archon("run", "--role", "requirements", GOAL, "--quiet").code == 0
    assert json.loads(terminal.archon("show", "last", "--json").out)["strategy"] == "STRATEGY_AGENT"
    assert terminal.archon("run", "--role", "requirements", "--strategy", "pipeline", GOAL, "--quiet").code == 0
    assert json.loads(terminal.archon("show", "last", "--json").out)["strategy"] == "STRATEGY_PIPELINE"


def test_a_run_whose_budget_is_spent_fails_and_says_so(terminal: Terminal) -> None:
    done = terminal.archon("run", "--strategy", "agent", "--budget-tokens", "2000", GOAL)
    assert done.code == 1
    assert "budget" in done.out.splitlines()[-1]
    assert any("wanted more of the budget than is left" in line for line in done.sentences)


def test_a_coordinator_that_is_killed_remembers_what_it_had_delegated(terminal: Terminal) -> None:
    designer = terminal.pid("designer-1")
    before = terminal.state().process("coordinator-1").restarts
    os.kill(designer, signal.SIGSTOP)
    try:
        with terminal.start("run", "--strategy", "agent", GOAL) as running:
            running.until("delegates to designer")
            os.kill(terminal.pid("coordinator-1"), signal.SIGKILL)
            wait_until(lambda: terminal.state().process("coordinator-1").restarts > before, within=PATIENCE)
            os.kill(designer, signal.SIGCONT)
            running.until("completed after")
            assert running.end() == 0
    finally:
        os.kill(designer, signal.SIGCONT)
    assert "delegates to designer what it had been asked before: remembered" in running.text
    for role, calls in {"requirements": 1, "designer": 1, "coordinator": 4}.items():
        records = json.loads(terminal.archon("prompts", "last", "--role", role, "--json").out)
        assert len(records) == calls, f"no call of the model of {role} was made twice"
