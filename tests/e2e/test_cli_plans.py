"""Plans and queries by the command line, on a mesh in one process with the offline model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from archon.registry import RegistryClient
from archon_services.cli.errors import NOT_FOUND, UNREACHABLE, USAGE
from tests.e2e.shown_output import matches, steps
from tests.e2e.small_mesh import small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.services import ServiceProcess
from tests.fixtures.waiting import eventually

QUERY = "15 * 24, and facts about 360"
ROLES = ("planner", "researcher", "coder")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), *ROLES) as terminal:
        yield terminal


class Stage:
    """Agents of a test beside those of the mesh, in processes of their own."""

    def __init__(self, terminal: Terminal, folder: Path) -> None:
        self.terminal = terminal
        self.ledger = folder / "ledger.txt"
        self._folder = folder

    async def archon(self, *arguments: str) -> Result:
        return await asyncio.to_thread(self.terminal.archon, *arguments)

    @asynccontextmanager
    async def agent(self, role: str, *plans: Any, delay: float = 0.0) -> AsyncIterator[ServiceProcess]:
        """An agent that answers with its context after `delay` seconds, or makes these plans."""
        module = "tests.fixtures.planning_agent" if plans else "tests.fixtures.echo_agent"
        process = ServiceProcess(
            module,
            self._folder,
            ECHO_ROLE=role,
            ECHO_DELAY=str(delay),
            ECHO_LEDGER=str(self.ledger),
            PLANS=json.dumps(plans),
            ARCHON_REGISTRY=self.terminal.state().registry,
            ARCHON_HOME=str(self.terminal.home),
            ARCHON_TTL="2",
        )
        await process.start()
        try:
            async with RegistryClient(self.terminal.state().registry, credentials=self.terminal.credentials) as client:

                async def listed() -> bool:
                    return any(each.address == process.address for each in await client.list_instances())

                await eventually(listed, PATIENCE)
            yield process
        finally:
            await process.stop()

    async def begun(self, role: str, times: int = 1) -> None:
        """Waits until the role has begun so many tasks."""

        async def seen() -> bool:
            lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
            return sum(line.startswith(f"begin {role} ") for line in lines) >= times

        await eventually(seen, PATIENCE)


@pytest.fixture
def stage(terminal: Terminal, tmp_path: Path) -> Stage:
    return Stage(terminal, tmp_path)


def run_count(terminal: Terminal) -> int:
    return len(json.loads(terminal.archon("runs", "--json").out))


def test_ask_prints_one_answer_of_two_roles(terminal: Terminal) -> None:
    result = terminal.archon("ask", QUERY)
    assert result.code == 0, result.err
    assert result.out.startswith("Offline model")
    assert "## 15 * 24\n\n360\n" in result.out
    assert "## facts about 360\n" in result.out
    reason, *progress = result.error_lines
    assert reason.startswith("planning: the query has 2 steps")
    assert {role for role in ROLES if any(f" {role} (" in line for line in progress)} == {*ROLES}
    run = json.loads(terminal.archon("show", "last", "--json").out)
    assert {step["role"] for step in run["plan"]["steps"]} == {"coder", "researcher"}
    assert [answer["role"] for answer in run["answers"]] == ["planner"], "one synthesis"


def test_ask_gives_a_query_of_one_step_to_the_role_for_it(terminal: Terminal) -> None:
    result = terminal.archon("ask", "Which facts are known about 360?", "--quiet")
    assert (result.code, result.err) == (0, "")
    assert "360" in result.out
    run = json.loads(terminal.archon("show", "last", "--json").out)
    assert [task["role"] for task in run["tasks"]] == ["researcher"]
    chosen = terminal.archon("ask", "Calculate 15 * 24.")
    assert "asking coder" in chosen.error_lines[0]
    assert "360" in chosen.out, "the tool has calculated"


NOTES = """
name: notes
description: Writes the notes of a release.
parameters: {version: {}}
steps: [{task: "Facts about version {{ version }}", role: researcher}]
"""


def with_workflows(terminal: Terminal, folder: Path) -> Terminal:
    (folder / "notes.yaml").write_text(NOTES)
    return Terminal(terminal.home, ARCHON_WORKFLOWS=str(folder))


def test_ask_says_what_the_workflow_that_fits_lacks(terminal: Terminal, tmp_path: Path) -> None:
    result = with_workflows(terminal, tmp_path).archon("ask", "Write the notes of a release")
    assert result.error_lines[0] == "the workflow notes@1 fits the query, but it needs version=..."
    assert result.code == 0, result.err
    named = with_workflows(terminal, tmp_path).archon("ask", "notes version=7", "--role", "researcher")
    assert "asking researcher" in named.error_lines[0]


def test_ask_answers_beside_workflows_that_clash(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "copy.yaml").write_text(NOTES)
    result = with_workflows(terminal, tmp_path).archon("ask", "Which facts are known about 360?")
    assert result.code == 0, result.err
    assert result.error_lines[0].startswith("note: no workflow is considered: two files have the workflow notes@1")
    assert "asking researcher" in result.error_lines[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--metadata", "ticket"], "invalid metadata 'ticket': expected KEY=VALUE, such as ticket=4711"),
        (["--metadata", "a=1", "--metadata", "a=2"], "--metadata has a twice"),
        (["--user", "ana", "--metadata", "dev.archon/user=bo"], "exclude each other"),
    ],
)
@pytest.mark.parametrize("command", ["run", "ask"])
def test_wrong_metadata_is_refused_before_anything_is_submitted(
    terminal: Terminal, command: str, options: list[str], message: str
) -> None:
    before = run_count(terminal)
    result = terminal.archon(command, "x", *options)
    assert (result.code, message in result.err) == (USAGE, True), result.err
    assert run_count(terminal) == before


def test_ask_of_an_absent_role_is_not_found(terminal: Terminal) -> None:
    result = terminal.archon("ask", "x", "--role", "poet")
    assert (result.code, result.out) == (NOT_FOUND, "")
    assert "poet" in result.err


def test_plan_prints_steps_and_stores_nothing(terminal: Terminal) -> None:
    before = run_count(terminal)
    result = terminal.archon("plan", QUERY)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == f"plan 1: {QUERY}"
    assert any(line.startswith("  1  coder [calculator]  ~") for line in lines)
    assert any(line.startswith("  2  researcher  ~") for line in lines)
    assert any(line.startswith("2 steps, ~") and "of work" in line for line in lines)
    document = json.loads(terminal.archon("plan", "--json", QUERY).out)
    assert [(step["id"], step["role"]) for step in document["subtasks"]] == [("1", "coder"), ("2", "researcher")]
    assert run_count(terminal) == before
    page = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
    (shown,) = [step.shown for step in steps(page) if f'archon plan "{QUERY}"' in step.commands]
    assert matches(shown, result.out), "the page prints what it shows"


def test_a_goal_may_be_the_name_of_a_command(terminal: Terminal) -> None:
    assert terminal.archon("plan", "--", "show").out.startswith("plan 1: show\n")
    assert terminal.archon("plan", "show", "absent").code == NOT_FOUND


def test_plan_without_the_planner_is_not_found(terminal: Terminal) -> None:
    result = terminal.archon("plan", "x", "--planner", "absent")
    assert (result.code, result.out) == (NOT_FOUND, "")


async def test_plan_says_what_was_repaired(stage: Stage) -> None:
    circle = {"subtasks": [{"id": "a", "description": "do a", "dependencies": ["a"], "role": "coder"}]}
    async with stage.agent("circular", circle):
        result = await stage.archon("plan", "x", "--planner", "circular", "--role", "coder")
    assert result.code == 0, result.err
    assert "repaired: " in result.out
    await stage.begun("circular", 2)


async def test_plan_of_a_planner_that_talks_nonsense_fails(stage: Stage) -> None:
    async with stage.agent("babbler", "I cannot plan that."):
        result = await stage.archon("plan", "x", "--planner", "babbler", "--role", "coder")
    assert (result.code, result.out) == (1, "")
    assert "the planner's reply cannot be executed" in result.err


async def test_plan_of_a_silent_planner_ends_in_time(stage: Stage) -> None:
    async with stage.agent("sleeper", {}) as process:
        process.freeze()
        result = await stage.archon("plan", "x", "--planner", "sleeper", "--timeout", "2")
        process.thaw()
    assert (result.code, result.out) == (UNREACHABLE, "")
    assert "'sleeper' has made no plan within" in result.err


def test_run_shows_the_steps_of_its_plan(terminal: Terminal, tmp_path: Path) -> None:
    result = terminal.archon("run", QUERY, "--strategy", "plan")
    assert result.code == 0, result.err
    assert any("plan 1 made: 2 steps" in line for line in result.error_lines)
    assert any("coder (1)" in line and "completed" in line for line in result.error_lines)
    shown = terminal.archon("show", "last").out
    assert "├── planner (plan 1)" in shown
    assert "├── coder (1)" in shown and " of ~" in shown
    assert "└── planner (answer)" in shown
    text = terminal.archon("plan", "show", "last").out
    assert "  1  coder [calculator]  completed  " in text
    for form, start in (("mermaid", "flowchart TD"), ("dot", "digraph plan {"), ("svg", "<svg"), ("json", "{")):
        assert terminal.archon("plan", "show", "last", "--format", form).out.startswith(start)
    picture = tmp_path / "plan.svg"
    assert terminal.archon("plan", "show", "last", "-o", str(picture)).out == f"Wrote {picture}.\n"
    assert 'class="completed"' in picture.read_text()


def test_a_run_without_a_plan_has_none_to_show(terminal: Terminal) -> None:
    assert terminal.archon("run", "x", "--role", "researcher", "--quiet").code == 0
    result = terminal.archon("plan", "show", "last")
    assert result.code == NOT_FOUND
    assert "has no plan" in result.err


SLOW = {"id": "slow", "description": "wait", "role": "snail"}


async def test_edit_replaces_what_has_not_begun(stage: Stage, tmp_path: Path) -> None:
    later = {"id": "later", "description": "do it later", "role": "coder", "dependencies": ["slow"]}
    file = tmp_path / "plan.json"
    async with stage.agent("drafter", {"subtasks": [SLOW, later]}), stage.agent("snail", delay=PATIENCE) as snail:
        run_id = (await stage.archon("run", "x", "--strategy", "plan", "--planner", "drafter", "--detach")).out.strip()
        await stage.begun("snail")
        assert (await stage.archon("plan", "show", run_id, "-o", str(file))).code == 0
        written = file.read_text()
        document = json.loads(written)
        document["subtasks"][1] |= {"id": "sooner", "description": "do it sooner"}
        file.write_text(json.dumps(document))
        edited = await stage.archon("plan", "edit", run_id, str(file))
        assert edited.code == 0, edited.err
        assert "plan 2: " in edited.out and "  sooner  coder" in edited.out
        file.write_text(written)
        conflict = await stage.archon("plan", "edit", run_id, str(file))
        assert conflict.code == 1
        assert f"has changed since {file} was written" in conflict.err
        assert "hint: `archon plan show" in conflict.err
        del document["change_seq"]
        document["subtasks"][0]["description"] = "wait for something else"
        file.write_text(json.dumps(document))
        touching = await stage.archon("plan", "edit", run_id, str(file))
        assert (touching.code, "slow" in touching.err) == (1, True)
        document["subtasks"] = [SLOW, {**later, "id": "a", "role": "absent"}, {**later, "id": "b", "tool_name": "axe"}]
        file.write_text(json.dumps(document))
        faulty = await stage.archon("plan", "edit", run_id, str(file))
        assert faulty.code == USAGE
        assert "absent" in faulty.err and "axe" in faulty.err
        assert (await stage.archon("cancel", run_id)).code == 0
        await snail.kill()


async def test_a_run_whose_plan_strays_gets_another_plan(stage: Stage) -> None:
    """The planner knows nothing of checks: it replies its next plan, as one of an earlier version would."""
    first = {"id": "a", "description": "find facts about trains", "role": "coder"}
    strays = {"subtasks": [first, SLOW | {"dependencies": ["a"]}, first | {"id": "c", "dependencies": ["slow"]}]}
    other = {
        "subtasks": [first | {"id": "d", "description": "buy a ticket", "dependencies": ["a"]}],
        "reason": "it waits",
    }
    arguments = ("run", "x", "--strategy", "plan", "--planner", "drafter", "--timeout", str(PATIENCE))
    async with stage.agent("drafter", strays, other), stage.agent("snail", delay=PATIENCE):
        result = await stage.archon(*arguments, "--check-alignment")
    assert result.code == 0, result.err
    because = "because the plan no longer serves the query: it waits"
    assert f"plan 2 made, replaces plan 1, {because}" in result.out + result.err
    shown = stage.terminal.archon("show", "last").out
    assert "planner" not in shown.partition("drafter")[0]
    assert "drafter (check of plan 1)" in shown


def test_ask_has_its_plan_checked(terminal: Terminal) -> None:
    query = "Calculate 15 * 24; then find facts about the result; then describe these facts"
    result = terminal.archon("ask", query, "--check-alignment")
    assert result.code == 0, result.err
    assert "planner (check of plan 1)" in terminal.archon("show", "last").out
    direct = terminal.archon("ask", "Which facts are known about 360?", "--check-alignment", "--quiet")
    assert (direct.code, direct.err) == (0, ""), "without a plan there is nothing to check"


def test_check_alignment_needs_a_plan(terminal: Terminal) -> None:
    result = terminal.archon("run", "x", "--check-alignment")
    assert (result.code, "--check-alignment needs --strategy plan" in result.err) == (USAGE, True)


@pytest.mark.slow
@pytest.mark.liveness
async def test_a_planner_that_is_killed_while_it_plans_plans_again(stage: Stage) -> None:
    step = {"id": "1", "description": "facts about 360", "role": "researcher"}
    async with stage.agent("thinker", {"subtasks": [step]}, delay=PATIENCE) as thinker:
        running = asyncio.create_task(
            stage.archon("run", "x", "--strategy", "plan", "--planner", "thinker", "--timeout", str(PATIENCE))
        )
        await stage.begun("thinker")
        await thinker.kill()
        asked = await stage.archon("plan", "x", "--planner", "thinker", "--timeout", "2")
        assert asked.code in (UNREACHABLE, NOT_FOUND), "a dry run fails in time: not found, once the lease has expired"
        thinker.environment["ECHO_DELAY"] = "0"
        await thinker.start()
        result = await running
    assert result.code == 0, result.err
    assert any("thinker (plan 1)" in line and "attempt 2" in line for line in result.error_lines)


def test_agents_prints_the_profiles_of_roles(terminal: Terminal) -> None:
    text = terminal.archon("agents", "--profiles").out
    assert "coder: Writes and explains program code, and calculates.\n" in text
    assert "  tools         calculator\n" in text
    assert "  expected      ~15 s, quality 0.7\n" in text
    assert "  messages      code with validator\n" in text
    agents = {agent["role"]: agent for agent in json.loads(terminal.archon("agents", "--json").out)}
    assert agents["planner"]["planner"] is True
    assert agents["researcher"]["profile"]["prompt_template"] == "Find facts about {topic}: {questions}"


@pytest.mark.parametrize("arguments", [("up", "--role", "poet"), ("serve", "--role", "poet"), ("serve",)])
def test_an_unknown_role_is_a_usage_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = Terminal(tmp_path).archon(*arguments)
    assert (result.code, result.out) == (USAGE, "")


@pytest.mark.parametrize("role", ["researcher", "writer", "editor", "coder", "validator", "arbiter", "planner"])
def test_the_reference_roles_are_valid_files(tmp_path: Path, role: str) -> None:
    result = Terminal(tmp_path).archon("serve", "--role", role, "--check")
    assert result.code == 0, result.err
    assert f"declares the role {role} with " in result.out
