"""The examples run, and the documentation shows them unchanged."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
from mcp import Client as McpClient
from mcp.client.context import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from archon.agent import AgentServer
from archon.client import Client, answer_text
from archon.errors import FailedPrecondition, Unavailable
from archon.registry import Tool
from archon.tools import SharedTool, SharedToolCall
from archon_mesh import Agent
from archon_mesh.core.messages import ToolCall
from archon_mesh.declared import load_agent, load_rules
from archon_mesh.llm import ScriptedModel
from archon_mesh.node import Role, agent_from_role, agent_server
from archon_mesh.testing import InProcessMesh, RecordedModel
from archon_mesh.tools.mcp.serving.server import create_server
from archon_mesh.workflows import load_workflow
from tests.fixtures.http_gateway import gateway_mesh
from tests.fixtures.media import PNG
from tests.fixtures.recorded_calls import record_calls, write_run_file
from tests.fixtures.waiting import eventually

ROOT = Path(__file__).parents[3]
PAGE_OF_TESTS = ROOT / "docs" / "testing-agents.md"
EXAMPLES = {"testing-agents": "testing", "attached-agents": "attached_member"}
"""Examples of pages whose files have another name."""


def load_example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


AGENTS = load_example("agents")
TOOLS = load_example("tools")
MODELS = load_example("models")
COMPOSITE_TOOLS = load_example("composite_tools")
AGENT_MEMORY = load_example("agent_memory")
PLANS = load_example("plans")
CONFLICTS = load_example("conflicts")
WORK_LISTS = load_example("work_lists")
PEOPLE = load_example("people")
WORKFLOWS = load_example("workflows")
OFFICE = load_example("office")
TESTING = load_example("testing")
MESSAGES = load_example("messages")
SHARED_TOOLS = load_example("shared_tools")
FEDERATION = load_example("federation")
A2A = load_example("a2a")
MESH_TOOLS = load_example("mesh_tools")
ATTACHED_MEMBER = load_example("attached_member")
EVALS = load_example("evals")
PLAYGROUND = load_example("playground")
SCHEDULES = load_example("schedules")
HOOKS = load_example("hooks")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tools", "\n5"),
        ("state", "['the door is open']"),
        ("typed", "stars=5"),
        ("hooks", "that is not for you\n-- careful"),
        ("middlewares", "Say something."),
        ("events", "'RUN_STARTED', 'TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'TOOL_CALL_RESULT'"),
        ("sub_agents", "A line about the sea."),
        ("factory", "['poet']"),
        ("tracing", "\n5"),
        ("goals", "Short."),
        ("pausing", "executing'>, <Phase.FINISHED"),
        ("working", "{'draft': {'lines': 2}, 'reviewer': 'ada'}"),
        ("sessions", "['My name is Ada.', 'What is my name?']"),
    ],
)
async def test_an_example_of_the_agent_runtime_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(AGENTS, name)())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("results", "[2.5, 2, \"invalid arguments for tool chart: numbers: 'three' is not of type 'array'\""),
        ("results", "no tool 'convrt'; did you mean convert? registered: convert, chart"),
        ("namespaces", "['money.convert', 'money.convert']"),
        ("calculate", "[4, 30]"),
        ("failures", "(['sunny in Porto', 'saved_weather'], ToolHealth(calls=5, failures=5,"),
        ("failures", "breaker=<BreakerState.OPEN"),
        ("permissions", "not allowed by its name', 'a.txt is deleted']"),
        ("credentials", "[\"missing credential 'api_key'\", 'GET /a?key=***', 'GET /a?key=***']"),
    ],
)
async def test_an_example_of_tools_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(TOOLS, name)())


async def test_the_examples_of_models_give_their_answers(tmp_path: Path) -> None:
    assert await MODELS.scripted() == "It is 45."
    overloaded = ScriptedModel([Unavailable("overloaded")] * 2)
    assert await MODELS.wrapped(overloaded, ScriptedModel(["Yes."])) == "Yes."
    assert overloaded.remaining == 0
    sums = ScriptedModel([ToolCall("1", "multiply", '{"a": 15, "b": 3}'), "It is 45."])
    assert await MODELS.cassettes(sums, tmp_path / "sums.jsonl") == ("It is 45.", "It is 45.")
    assert await MODELS.budget() == 1_200
    (tmp_path / "a.png").write_bytes(PNG)
    assert await MODELS.picture(ScriptedModel(["A dot."]), tmp_path / "a.png") == "A dot."


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("book", "[{'flight': 'flight-Porto', 'hotel': 'hotel-Porto', 'cover': None},"),
        ("book", "'cover': 'insured for 240'}]"),
        ("undo", "node hotel failed: LookupError: the hotels of Porto are booked out"),
        ("undo", "undone: flight', ['flight-Porto'])"),
    ],
)
async def test_an_example_of_composite_tools_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(COMPOSITE_TOOLS, name)())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("preferences", "['Booked: a free seat.', 'Booked: a window seat.', 'Booked: a free seat.']"),
        ("compression", "[Earlier conversation summarized: I see."),
    ],
)
async def test_an_example_of_agent_memory_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(AGENT_MEMORY, name)())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trip", "('a room at the Plaza', ['decided', 'created', 'subtask_started 1', 'subtask_completed 1', "),
        (
            "trip",
            "'subtask_failed 2', 'replanning', 'replanned', 'subtask_started 3', 'subtask_completed 3', 'completed'], 1)",
        ),
        ("several_agents", "## 15 * 24\\n\\n360\\n\\n## facts about 360\\n\\nA full circle."),
        ("several_agents", "the query has 2 steps, and there are other agents; the plan gives subtasks to historian"),
        ("committee_of_three", "360"),
        ("approval", "['Where to?', '1: book_flight']"),
        ("handle", "120}', ['Where to?', 'Approve the plan: Book a trip to Rome'])"),
        ("planner", "['calculator', 'book_hotel', 'book_hotel']"),
    ],
)
async def test_an_example_of_plans_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(PLANS, name)())


async def test_the_example_of_an_auction_gives_its_answer(tmp_path: Path) -> None:
    assert await PLANS.auction_of_three(tmp_path) == "code of quality 0.9"


async def test_the_example_of_a_committee_of_coders_has_a_majority(tmp_path: Path) -> None:
    answer, votes = await PLANS.committee_of_coders(tmp_path)
    assert answer.casefold().startswith("o(n)")
    assert votes == 3


async def test_the_example_of_conflicts_uses_the_right_number(tmp_path: Path) -> None:
    text, verdict = await CONFLICTS.bridge(tmp_path)
    assert text == "The old bridge has 14 arches."
    assert verdict.startswith("verify: only arches-1 of archivist has passed the check of validator. Again: 14")


async def test_the_example_of_facts_keeps_the_right_one(tmp_path: Path) -> None:
    assert await CONFLICTS.facts(tmp_path) == "14 arches: kept, by verify; the length is confirmed 1 times"


async def test_the_examples_of_work_lists_give_their_answers(tmp_path: Path) -> None:
    assert await WORK_LISTS.by_hand(tmp_path / "a") == "12 pages, without {'page-7': 'the page is torn'}"
    assert await WORK_LISTS.by_a_swarm(tmp_path / "b") == "The words are translated."


def test_the_step_on_the_page_of_work_lists_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "work-lists.md").read_text(), re.S)
    path = tmp_path / "translate.yaml"
    path.write_text(f"name: translate\nparameters: {{words: {{type: list}}}}\nsteps:\n{block}")
    assert load_workflow(path).name == "translate"


async def test_the_example_of_federation_gives_its_answer(tmp_path: Path) -> None:
    assert await FEDERATION.main(tmp_path) == "A story. The bridge was built in 1665."


async def test_the_example_of_a2a_calls_a_role(tmp_path: Path) -> None:
    async with gateway_mesh(tmp_path) as served:
        url = f"{served.url}/a2a/roles/echo"
        assert await A2A.ask(url, "", "hello") == "echo: hello"


async def test_the_example_of_mesh_tools_calls_a_role(tmp_path: Path) -> None:
    async with gateway_mesh(tmp_path) as served:
        assert await MESH_TOOLS.call(served.url, "", "echo", "hello") == "echo: hello"


async def test_the_example_of_the_smallest_attaching_member_works(tmp_path: Path) -> None:
    async with InProcessMesh(tmp_path) as mesh:
        member = asyncio.create_task(ATTACHED_MEMBER.main(mesh.orchestrator.address))
        try:
            await eventually(lambda: _is_registered(mesh, "shouter"))
            for _ in range(2):
                handle = await mesh.client.submit("a rose", roles=["shouter"], wait=10)
                assert answer_text(handle.run) == "A ROSE"
        finally:
            member.cancel()
            await asyncio.wait([member], timeout=5.0)


async def _is_registered(mesh: InProcessMesh, role: str) -> bool:
    return bool(await mesh.directory.list_instances(role))


async def test_the_example_of_direct_messages_gives_its_answer(tmp_path: Path) -> None:
    assert await MESSAGES.directly(tmp_path) == "status_update: {'status': 'ready'}"


async def test_the_example_of_messages_gives_its_answer(tmp_path: Path) -> None:
    assert await MESSAGES.help_request(tmp_path / "a") == "The bridge is 360 years old."
    assert await MESSAGES.by_models(tmp_path / "b") == "360 years"
    assert await MESSAGES.in_one_process() == "360; The text is complete."


async def test_the_examples_of_shared_tools_give_their_answers(tmp_path: Path) -> None:
    assert await SHARED_TOOLS.by_a_model(tmp_path / "a") == "1233"
    assert await SHARED_TOOLS.by_a_program(tmp_path / "b") == (["halve"], 2.5, "NotFound")


async def test_the_example_of_a_tool_in_go_calls_one_in_python_as_well(tmp_path: Path) -> None:
    async def count(arguments: Mapping[str, str], call: SharedToolCall) -> int:
        return len(arguments["text"].split())

    schema = '{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}'
    shared = SharedTool(Tool("count_words", "Counts words.", schema), count)
    async with InProcessMesh(tmp_path) as mesh:
        settings = mesh.agent_settings()
        async with AgentServer("designer", handler=lambda task: "", shared_tools=[shared], settings=settings):
            assert await SHARED_TOOLS.in_go(mesh.registry.address) == ("designer", 3)


async def test_the_example_of_a_journal_goes_on_after_a_stop(tmp_path: Path) -> None:
    answer, reports = await PLANS.journal(tmp_path / "trip.journal")
    assert answer == "a room at the Plaza"
    assert reports == ["decided", "continued", "subtask_started 2", "subtask_completed 2", "completed"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("approval", "Deleted."),
        ("rules", "['paid 500', 'paid 5', 'rejected by rule payments']"),
        ("questions", "a room in Porto for 2 nights"),
    ],
)
async def test_an_example_of_people_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(PEOPLE, name)())


def test_the_rules_on_the_page_of_people_load(tmp_path: Path) -> None:
    of_agent, of_mesh = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "people.md").read_text(), re.S)
    (tmp_path / "rules.yaml").write_text(of_mesh)
    assert len(load_rules(tmp_path / "rules.yaml")) == 4
    (tmp_path / "clerk.yaml").write_text(f"name: clerk\n{of_agent}")
    assert len(load_agent(tmp_path / "clerk.yaml").agent.rules) == 2


def test_the_example_of_faults_repairs_them_and_draws_a_plan() -> None:
    found, changes, order = PLANS.faults()
    assert (len(found), len(changes), order) == (2, 2, ["flight", "hotel"])
    assert '-->|"{flight.price}"|' in PLANS.drawing()


def test_the_yaml_agent_on_the_agent_memory_page_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "agent-memory.md").read_text(), re.S)
    (tmp_path / "clerk.yaml").write_text(block)
    assert len(load_agent(tmp_path / "clerk.yaml").agent.registered) == 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("trip", "('AR1, and a room.', ['Book 2 nights in Rome?'])"),
        ("template", "A room in Rome for 3 nights."),
        ("recorded", "nights: '{{ nights }}'"),
    ],
)
async def test_an_example_of_workflows_gives_its_answer(name: str, expected: str) -> None:
    assert expected in str(await getattr(WORKFLOWS, name)())


def test_the_other_examples_of_workflows_show_what_they_say() -> None:
    first, later = WORKFLOWS.known()
    assert first[:3] == ["flights", "texts*", "step-3*"]
    assert later[:4] == ["flights", "texts-1/step-1", "texts-2/step-1", "step-3/choice*"]
    assert WORKFLOWS.wrong_arguments() == "workflow trip@1: city: is missing; nights: must be a whole number"
    page = (ROOT / "docs" / "workflows.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.S)
    assert block in (ROOT / "examples" / "workflows" / "trip.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("agents", 10),
        ("tools", 8),
        ("models", 5),
        ("composite-tools", 1),
        ("shared-tools", 5),
        ("agent-memory", 2),
        ("plans", 9),
        ("conflicts", 3),
        ("work-lists", 2),
        ("people", 3),
        ("messages", 4),
        ("federation", 1),
        ("a2a", 1),
        ("attached-agents", 1),
        ("workflows", 4),
        ("testing-agents", 11),
        ("playground", 1),
        ("evals", 1),
        ("clients", 2),
        ("schedules", 3),
        ("hooks", 4),
    ],
)
def test_each_example_on_a_page_is_in_its_file(name: str, count: int) -> None:
    page = (ROOT / "docs" / f"{name}.md").read_text()
    source = (ROOT / "examples" / f"{EXAMPLES.get(name, name.replace('-', '_'))}.py").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == count
    for block in blocks:
        assert block.strip() in source, f"differs from examples/{name}.py:\n{block}"


async def test_the_example_of_evals_passes_and_equals_its_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "evals", EVALS)
    assert await EVALS.greetings(tmp_path) == (True, False)


async def test_the_examples_of_schedules_fire_and_move(tmp_path: Path) -> None:
    async with (
        InProcessMesh(tmp_path) as mesh,
        AgentServer("reviewer", handler=lambda task: "Fine.", settings=mesh.agent_settings()),
    ):
        assert await SCHEDULES.nightly(mesh.client) == "30 2 * * * (Europe/Berlin), buffer_one, 10 times to come"
        assert await SCHEDULES.delayed(mesh.client, 4_000_000_000.0) == "active"
        assert await SCHEDULES.by_hand(mesh.client) == "starting"

        async def completed() -> bool:
            return [fire.state for fire in await SCHEDULES.fires(mesh.client)] == ["completed"]

        await eventually(completed)
        assert await SCHEDULES.moved(mesh.client) == "0 4 * * 1-5 (Europe/Berlin)"


async def test_the_examples_of_hooks_review_a_pull_request(tmp_path: Path) -> None:
    body = b'{"action": "opened", "pull_request": {"html_url": "u", "number": 7}, "sender": {"login": "ann"}}'
    async with (
        gateway_mesh(tmp_path) as served,
        AgentServer("reviewer", handler=lambda task: f"Fine: {task.text}", settings=served.mesh.agent_settings()),
    ):
        client = served.mesh.client
        path, secret = await HOOKS.review(client)
        answer = await HOOKS.deliver(client, served.url, body)
        assert (path, answer.status_code) == ("/hooks/review", 202)
        run = await client.get(answer.json()["run"])
        assert run.session_id == "pr-7" and run.goal[0].text == "Review u by ann."
        hook = await HOOKS.widened(client)
        assert (hook.events, hook.goal.startswith("Review {{"), hook.roles) == (("pull_request",), True, ("reviewer",))
        assert await HOOKS.rotated(client) != secret


async def test_the_example_of_the_playground_compares_answers(tmp_path: Path) -> None:
    role = Role("designer", "Be long.", description="Designs.")
    agent = agent_from_role(role, "offline")
    async with InProcessMesh(tmp_path) as mesh, agent, agent_server(role, agent, mesh.agent_settings()):
        run = (await mesh.client.submit("Draw a door.", roles=["designer"], wait=30)).run
        await eventually(lambda: _recorded(mesh.client, run.run_id))
        assert len(await PLAYGROUND.tried(mesh.client, run.run_id)) == 2


async def _recorded(client: Client, run_id: str) -> bool:
    return bool([record async for record in client.records(run_id)])


async def test_the_example_of_a_recorded_model_answers(tmp_path: Path) -> None:
    agent = Agent("guide", model=ScriptedModel(["545,000."]), system_prompt="You know cities. Be brief.")
    records = await record_calls(agent, "How many people live in Lisbon?", role="guide")
    file = write_run_file(tmp_path / "run.archon", records)
    assert await TESTING.recorded(file) == "545,000."
    page = re.search(r"(?s)  ```text\n(  run.archon has no such call.*?)  ```", PAGE_OF_TESTS.read_text())
    assert page is not None
    longer = Agent("guide", model=RecordedModel(file), system_prompt="You know cities. Be long.")
    with pytest.raises(FailedPrecondition) as raised:
        await longer.run_async("How many people live in Lisbon?")
    assert str(raised.value).replace(str(file), "run.archon") == dedent(page[1]).strip()


async def test_the_examples_of_tests_give_their_answers(tmp_path: Path) -> None:
    assert await TESTING.scripted() == ("545,000 people.", "545000")
    seen = ("Which spice for something hot?", "soup with pepper", "https://example.org/soup.png")
    assert await TESTING.one_handler() == seen
    assert await TESTING.half_a_minute(tmp_path / "a") == "half a minute later"
    assert await TESTING.crash(tmp_path / "b") == "attempt 1 of the report"
    assert await TESTING.lost_agent(tmp_path / "c") == "attempt 2"


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.usefixtures("clock_put_back")
async def test_the_examples_of_virtual_time_give_their_answers() -> None:
    assert await TESTING.minutes_of_retries() == ("It is 45.", True)
    assert await TESTING.reminder() == ["The invoice is still open."]
    assert await TESTING.tool_that_is_down() == ("It is sunny.", 2)


async def test_the_example_of_mcp_gives_its_answers_to_a_client() -> None:
    async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"answer": "2"})

    engine, offer = OFFICE.offer.tools.engine, OFFICE.offer
    async with McpClient(create_server("office", engine, offer=offer), elicitation_callback=answer) as client:
        assert "blue for 2 days" in str(await client.call_tool("book", {"room": "blue"}))
        assert "free" in str(await client.read_resource("room://blue"))
        assert "Office hours" in str(await client.read_resource("docs://hours.md"))
        assert "everybody to: lunch" in str(await client.get_prompt("invite", {"event": "lunch"}))
    of_an_agent, of_the_mesh = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "mcp.md").read_text(), re.S)
    assert of_an_agent.strip() in (ROOT / "examples" / "office.py").read_text()
    assert of_the_mesh.strip() in (ROOT / "examples" / "mesh_tools.py").read_text()


def test_the_yaml_agent_on_the_agents_page_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(name: .*?)```", (ROOT / "docs" / "agents.md").read_text(), re.S)
    (tmp_path / "helper.yaml").write_text(block)
    (tmp_path / "critic.yaml").write_text("name: critic\ndescription: Judges.\n")
    (tmp_path / "helper_tools.py").write_text(
        'def time_of_day() -> str:\n    """Says the time."""\n    return "noon"\n'
    )
    try:
        agent_file = load_agent(tmp_path / "helper.yaml")
    finally:
        sys.modules.pop("helper_tools", None)  # other tests import a module of this name, too
    assert set(agent_file.agent.sub_agents) == {"poet", "critic", "designer"}
    assert agent_file.role.stateful
    assert list(agent_file.role.depends_on) == ["requirements"]
