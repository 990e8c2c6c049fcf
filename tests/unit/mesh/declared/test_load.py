"""Agents in YAML: loading, and errors with file, line and key."""

from __future__ import annotations

import importlib
import textwrap
import traceback
from pathlib import Path

import jsonschema
import pytest
import yaml

from archon.errors import InvalidArgument, NotFound
from archon.registry import Capability, DependsOn, PropagationPolicy
from archon_mesh.agent import Agent, ContextCompactionMiddleware
from archon_mesh.core.messages import ToolCall
from archon_mesh.declared import DeclaredAgent, ModelOverrides, json_schema, load_agent
from archon_mesh.llm import ModelSpec, ScriptedModel
from archon_mesh.memory.automatic import MemoryMiddleware
from archon_mesh.node.remote_agent import RemoteAgent
from archon_services.agents.roles.catalogue import FOLDER, YAML_ROLES
from tests.fixtures.scripted_model import says

TOOLS = """
from archon_mesh.tools import Tool

def shout(text: str) -> str:
    "Shouts."
    return text.upper()

class Repeat(Tool):
    name = "repeat"
    description = "Repeats."
    def __init__(self, times):
        self.times = times
    async def execute(self, **kwargs):
        return "again " * self.times

TIMES = 2

def is_done(state, answer):
    return "say done" if answer is None or "done" not in answer else True

def last_round(messages, window):
    return [messages[0], *messages[-2:]]

NOTHING = 3
BROKEN = {}["missing"] if False else 1
"""

WHOLE = """
name: lead
description: Leads.
system_prompt: |-
  You are ${WHO:-unnamed}. It costs $$5.
model: ${MODEL:-offline}
tools:
  - my_tools:shout
  - import: my_tools:Repeat
    params:
      times: ${TIMES}
middlewares:
  - import: archon_mesh.agent:ContextCompactionMiddleware
    params: {max_context_tokens: 1000, compaction_strategy: tool_result_compaction}
sub_agents:
  poet:
    description: Writes verses.
    system_prompt: You rhyme.
    stateless: true
    tools: [my_tools:shout]
  critic: {file: critic.yaml}
  designer: {role: designer, description: Designs., timeout: 5}
max_iterations: 7
tool_policy: {allowed: [shout, poet], at_most: {shout: 2}}
exit_on_success: [shout]
temperature: 0.5
retries: 5
fallback_model: offline
role:
  version: 1.2.0
  capabilities: [lead.things, {id: lead.more, tags: [a]}]
  depends_on: [requirements, {role: critic, policy: full_history}]
  max_tasks: 3
"""


CUSTOM = """name: a
middlewares:
  - import: archon_mesh.agent:ContextCompactionMiddleware
    params: {{custom_strategy: {}, compaction_strategy: custom, max_context_tokens: 60}}
tools: [my_tools:shout]
max_repeats: 0
"""


def write(folder: Path, text: str, **files: str) -> Path:
    (folder / "my_tools.py").write_text(TOOLS)
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(textwrap.dedent(content))
    (folder / "agent.yaml").write_text(textwrap.dedent(text).lstrip())
    return folder / "agent.yaml"


def load(path: Path, **environment: str) -> DeclaredAgent:
    return load_agent(path, environment={"TIMES": "2", **environment})


def test_file_declares_an_agent_and_its_role(tmp_path: Path) -> None:
    critic = "name: critic\nsystem_prompt: You judge.\ndescription: Judges.\n"
    declared = load(write(tmp_path, WHOLE, critic=critic), WHO="the lead")
    agent, role = declared.agent, declared.role
    assert (agent.name, agent.system_prompt, agent.max_iterations) == ("lead", "You are the lead. It costs $5.", 7)
    assert (agent.retries, agent.fallback_model is not None) == (5, True)
    assert [tool.name for tool in agent.tools.list_tools()] == ["shout", "repeat", "poet", "critic", "designer"]
    assert getattr(agent.tools.get_tool("repeat"), "times", 0) == 2
    assert isinstance(agent.config.middlewares[0], ContextCompactionMiddleware)  # type: ignore[index]
    subs = agent.sub_agents
    assert subs["poet"].stateless
    poet = subs["poet"].agent
    assert isinstance(poet, Agent)
    assert poet.system_prompt == "You rhyme."
    assert subs["critic"].description == "Judges."
    assert isinstance(subs["designer"].agent, RemoteAgent)
    assert (agent.policy.offers("shout", {"shout": 1}), agent.policy.offers("shout", {"shout": 2})) == (True, False)
    assert (role.name, role.version, role.max_tasks) == ("lead", "1.2.0", 3)
    assert [(item.id, list(item.tags)) for item in role.capabilities if isinstance(item, Capability)] == [
        ("lead.things", []),
        ("lead.more", ["a"]),
    ]
    assert list(role.depends_on) == ["requirements", DependsOn("critic", PropagationPolicy.FULL_HISTORY)]


async def test_loaded_agent_runs(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\ntools: ['my_tools:shout']\n")
    model = ScriptedModel([says("", ToolCall("1", "shout", '{"text": "hey"}')), says("done")])
    agent = load_agent(path, model=model, environment={}).agent
    assert await agent.run_async("?") == "done"
    assert agent.history[2].content == "HEY"


async def test_a_goal_check_is_imported_from_the_files_folder(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\ngoal_check: my_tools:is_done\n")
    model = ScriptedModel([says("not yet"), says("done")])
    assert await load_agent(path, model=model, environment={}).agent.run_async("?") == "done"
    assert "say done" in model.requests[-1].messages[-1].content
    broken = write(tmp_path, "name: a\n\ngoal_check: my_tools:TIMES\n")
    with pytest.raises(InvalidArgument, match=r"agent\.yaml:3: goal_check: my_tools:TIMES is not a function"):
        load(broken)


async def test_compaction_strategy_is_imported_from_the_files_folder(tmp_path: Path) -> None:
    path = write(tmp_path, CUSTOM.format("my_tools:last_round"))
    replies = [says("", ToolCall(f"c{number}", "shout", '{"text": "xxxxxxxxxxxxxxxx"}')) for number in range(6)]
    model = ScriptedModel([*replies, says("done")])
    agent = load_agent(path, model=model, environment={}).agent
    assert await agent.run_async("q") == "done"
    assert [len(request.messages) for request in model.requests[-2:]] == [3, 3]
    assert model.requests[-1].messages[0].content == "q"


def test_variable_may_be_a_number_and_is_text_if_quoted(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\nmax_iterations: ${N}\ndescription: '${N}'\n")
    assert load(path, N="4").agent.max_iterations == 4
    assert load(path, N="4").agent.description == "4"


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("name: a\ntolls: []\n", "2: tolls", "is not a key here; did you mean tools?"),
        ("name: a\n\nmax_iterations: many\n", "3: max_iterations", "must be a whole number"),
        ("system_prompt: x\n", "1: name", "is missing"),
        ("name: a\nname: b\n", "2: name", "duplicate key"),
        ("name: a\ndescription: ${NOT_SET}\n", "2: description", "variable NOT_SET is not set"),
        ("name: a\ntools:\n  - my_tools:shout\n  - nonsense\n", "4: tools.1", "such as my_tools:search"),
        ("name: a\ntools:\n  - my_tools:nothing\n", "3: tools.0", "cannot import my_tools:nothing"),
        ("name: a\ntools:\n  - no_module:x\n", "3: tools.0", "No module named 'no_module'"),
        ("name: a\ntools:\n  - my_tools:NOTHING\n", "3: tools.0", "my_tools:NOTHING is not a tool"),
        ("name: a\ntools:\n  - import: my_tools:Repeat\n    params: {time: 1}\n", "4: tools.0.params", "cannot create"),
        (
            "name: a\ntools:\n  - import: my_tools:shout\n    par: 1\n",
            "4: tools.0.par",
            "is not a key here; did you mean params?",
        ),
        ("name: a\nmiddlewares:\n  - import: my_tools:shout\n", "3: middlewares.0", "cannot create"),
        (CUSTOM.format("my_tools:missing"), "4: middlewares.0.params.custom_strategy", "cannot import"),
        (CUSTOM.format("my_tools:NOTHING"), "4: middlewares.0.params.custom_strategy", "is not a function"),
        (CUSTOM.format("nonsense"), "4: middlewares.0.params.custom_strategy", "expected an import path"),
        (CUSTOM.replace("custom_strategy: {}, ", "").format(), "4: middlewares.0.params", "need each other"),
        ("name: a\nexit_on_success: [fly]\n", "2: exit_on_success", "no tool 'fly'"),
        ("name: a\nsub_agents:\n  b:\n    file: nope.yaml\n", "", "no such file"),
        ("name: a\nsub_agents:\n  b: {file: x, role: y}\n", "3: sub_agents.b", "either declared here, or by a file"),
        (
            "name: a\nsub_agents:\n  b: {system_prompt: x, stateles: 1}\n",
            "3: sub_agents.b.stateles",
            "did you mean stateless?",
        ),
        ("name: a\ntemperature: 3\n", "2: temperature", "must be at most 2"),
        ("name: 1a\n", "1: name", "is an invalid role name '1a'"),
        (
            "name: a\nrole: {depends_on: [{role: b, policy: tool_result}]}\n",
            "2: role.depends_on.0.policy",
            "tool_results?",
        ),
        ("name: a\ntools: ['my_tools:shout', 'my_tools:shout']\n", "2: tools", "tool 'shout' is already registered"),
        ("name: a\nrole: {depends_on: [a]}\n", "2: role", "cannot depend on itself"),
        ("name: [\n", "2", "invalid YAML"),
        ("- a\n", "1", "must be a mapping"),
    ],
)
def test_error_names_file_line_and_key(tmp_path: Path, text: str, where: str, why: str) -> None:
    with pytest.raises((InvalidArgument, NotFound)) as wrong:
        load(write(tmp_path, text))
    assert f"agent.yaml:{where}" in str(wrong.value) or not where
    assert why in str(wrong.value)


def test_all_mistakes_of_a_file_are_listed_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\ntolls: []\nmax_iterations: many\nrole: {statefull: true, max_tasks: 0}\n")
    with pytest.raises(InvalidArgument) as wrong:
        load(path)
    assert wrong.value.message.splitlines() == [
        f"{path}:2: tolls: is not a key here; did you mean tools?",
        f"{path}:3: max_iterations: must be a whole number",
        f"{path}:4: role.max_tasks: must be at least 1",
        f"{path}:4: role.statefull: is not a key here; did you mean stateful?",
    ]
    assert [violation.field for violation in wrong.value.field_violations] == [
        *("tolls", "max_iterations", "role.max_tasks", "role.statefull")
    ]


def test_files_that_include_each_other_are_an_error(tmp_path: Path) -> None:
    path = write(
        tmp_path, "name: a\nsub_agents: {b: {file: b.yaml}}\n", b="name: b\nsub_agents: {a: {file: agent.yaml}}"
    )
    with pytest.raises(InvalidArgument, match="nested in more than 8 files"):
        load(path)


def test_json_schema_accepts_valid_and_rejects_invalid_files() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    for name in YAML_ROLES:
        validator.validate(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
    validator.validate({"name": "a", "tools": [{"import": "a:b", "params": {"x": 1}}, "a:c"]})
    for wrong in ({}, {"name": "a", "tolls": []}, {"name": "1a"}, {"name": "a", "tools": ["nonsense"]}):
        assert not validator.is_valid(wrong), wrong


CALLS = """
from archon_mesh.tools import Tool
from archon_mesh.agent import Middleware

CALLED = []

class Made(Tool):
    name = "made"
    description = "Records that it was made."
    def __init__(self, key="", fail=False):
        CALLED.append(key)
        if fail:
            raise ValueError(f"cannot connect with {key}")

class Other: pass
"""


@pytest.fixture
def calls(tmp_path: Path) -> str:
    """The name of a module whose class records when it is created."""
    name = f"calls_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CALLS)
    return name


@pytest.mark.parametrize(
    "last", ["{module}:Missing", "{module}:Other", "{module}:CALLED", "no_such_module:x", "my_tools:NOTHING"]
)
def test_nothing_is_called_before_all_imports_are_checked(tmp_path: Path, calls: str, last: str) -> None:
    wrong = last.format(module=calls)
    text = f"name: a\ntools: [{{import: '{calls}:Made', params: {{}}}}]\nsub_agents: {{b: {{file: b.yaml}}}}\n"
    path = write(tmp_path, text, b=f"name: b\ntools: ['{wrong}']\n")
    with pytest.raises(InvalidArgument) as error:
        load(path)
    assert "b.yaml:2: tools.0" in str(error.value)
    assert importlib.import_module(calls).CALLED == []


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(InvalidArgument, match="more than 10,000 values"):
        load(write(tmp_path, "\n".join(lines) + "\n"))
    with pytest.raises(InvalidArgument, match="nested more than 50 levels deep"):
        load(write(tmp_path, "name: &name [*name]\n"))


@pytest.mark.parametrize("depth", [60, 100_000])
def test_deep_nesting_is_refused_at_once(tmp_path: Path, depth: int) -> None:
    with pytest.raises(InvalidArgument, match=r"agent\.yaml:1: nested more than 50 levels deep"):
        load(write(tmp_path, "name: " + "[" * depth + "]" * depth + "\n"))


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="larger than 1,048,576 bytes"):
        load(write(tmp_path, "name: a\ndescription: " + "x" * 1024 * 1024 + "\n"))


@pytest.mark.parametrize(
    "text",
    [
        "name: ${SECRET}\n",
        "name: a\nmax_iterations: ${SECRET}\n",
        "name: a\n${SECRET}: 1\n",
        "name: a\nmodel: {a: '${SECRET}'}\n",
        "name: a\ntools: ['${SECRET}:x']\n",
        "name: a\ntools: ['my_tools:${SECRET}']\n",
        "name: a\ntools: [{import: 'CALLS:Made', params: {key: '${SECRET}', fail: true}}]\n",
        "name: a\ntools: [{import: 'CALLS:Made', params: {'${SECRET}': 1}}]\n",
        "name: a\nsub_agents: {b: {file: '${SECRET}.yaml'}}\n",
        "name: a\nrole: {depends_on: [{role: b, policy: '${SECRET}'}]}\n",
        "name: a\nexit_on_success: ['${SECRET}']\n",
    ],
)
def test_a_substituted_secret_is_in_no_error(tmp_path: Path, calls: str, text: str) -> None:
    secret = "sk-Very:Secret 123"
    with pytest.raises((InvalidArgument, NotFound)) as error:
        load(write(tmp_path, text.replace("CALLS", calls)), SECRET=secret)
    shown = "".join(traceback.format_exception(error.value)) + repr(error.value.metadata)
    shown += repr(error.value.field_violations)
    assert secret not in shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: openai/a", "openai/a"),
        ("model: {use: openai/a}", "openai/a"),
        ("model: ''", "offline"),
        ("model: 'openai/a, offline'", ModelSpec("openai/a", ("offline",))),
        ("model: {use: 'openai/a,openai/b', fallback: [offline]}", ModelSpec("openai/a", ("openai/b", "offline"))),
        (
            "model: {use: anthropic/a, requests_per_minute: 6, tokens_per_minute: 70, thinking: {type: adaptive}}",
            ModelSpec("anthropic/a", (), 6, 70, {"type": "adaptive"}),
        ),
    ],
)
def test_a_model_has_fallbacks_limits_and_thinking(tmp_path: Path, text: str, expected: object) -> None:
    assert load(write(tmp_path, f"name: a\n{text}\n")).agent.config.model == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {fallback: [offline]}", "the key use is missing"),
        ("model: {use: offline, requests_per_minute: 0}", "must be at least 1"),
        ("model: {use: offline, falback: [a]}", "did you mean fallback"),
        ("model: 3", "must be a mapping"),
    ],
)
def test_mistakes_in_a_model_are_reported_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        load(write(tmp_path, f"name: a\n{text}\n"))
    assert "agent.yaml:2" in str(caught.value)


def test_overrides_win_over_the_file_for_all_of_its_agents(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    part = "model: openai/theirs\nretries: 5\ntimeout: 7\nfallback_model: openai/theirs\n"
    path.write_text(f"name: a\n{part}sub_agents:\n  b:\n" + "".join(f"    {line}\n" for line in part.splitlines()))
    ours, other = ScriptedModel([says("x")]), ScriptedModel([says("y")])
    agent = load_agent(path, environment={}, overrides=ModelOverrides(ours, 3.0, 0, other)).agent
    sub_agent = agent.sub_agents["b"].agent
    assert isinstance(sub_agent, Agent)
    for each in (agent, sub_agent):
        assert (each.model, each.fallback_model) == (ours, other)
        assert (each.model_timeout, each.retries) == (3.0, 0)


def test_overrides_that_are_not_given_keep_what_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nretries: 5\ntimeout: 7\nidle_timeout: 2\n")
    agent = load_agent(path, environment={}, overrides=ModelOverrides()).agent
    assert (agent.model_timeout, agent.idle_timeout) == (7.0, 2.0)
    assert (agent.retries, agent.fallback_model) == (5, None)


async def test_file_declares_credentials_quota_and_denied_tools(tmp_path: Path) -> None:
    content = """
name: clerk
tools: [vault_tools:fetch, vault_tools:shout]
tool_quota: 60
tool_policy: {allowed: ["*"], denied: [shout]}
credentials: {api_key: "${API_KEY}", other: "${OTHER:-}"}
"""
    (tmp_path / "vault_tools.py").write_text(
        "from archon_mesh.tools import Secret, tool\n"
        "@tool(credentials=['api_key'])\n"
        "def fetch(api_key: Secret) -> str:\n    return f'key {api_key.reveal()}'\n"
        "def shout() -> str:\n    return 'A'\n"
    )
    agent = load(write(tmp_path, content), API_KEY="k-123456").agent
    assert (await agent.engine.execute_tool_call("fetch")).content == "key ***"
    assert (await agent.engine.execute_tool_call("shout")).error_message == "tool shout is denied"
    assert "k-123456" not in repr(agent.config)
    assert agent.config.tool_quota == 60


def test_memory_is_a_middleware_after_the_compaction(tmp_path: Path) -> None:
    path = write(tmp_path, "name: a\nmemory: {threshold: 0.7, half_life: 30, budget: 2000, window: 3000}\n")
    compaction, memory = load(path).agent.registered
    assert isinstance(compaction, ContextCompactionMiddleware)
    assert compaction.limit == 2100
    assert isinstance(memory, MemoryMiddleware)
    assert (memory.settings.threshold, memory.settings.budget) == (0.7, 2000)
    assert load(write(tmp_path, "name: a\nmemory: {long_term: false, budget: 2000}\n")).agent.registered == []
    assert len(load(write(tmp_path, "name: a\nmemory: {long_term: true}\n")).agent.registered) == 1


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("threshold: 1.5", "agent.yaml:3: memory.threshold: must be at most 1"),
        ("half_life: 0", "agent.yaml:3: memory.half_life: must be greater than 0"),
        ("budget: much", "agent.yaml:3: memory.budget: must be a whole number"),
        ("long_term: 7", "agent.yaml:3: memory.long_term: must be true or false"),
        ("treshold: 0.5", "agent.yaml:3: memory.treshold: is not a key here; did you mean threshold?"),
        ("history: 0.9", "agent.yaml:2: memory: history, retrieved and template are parts of the budget: at most 1"),
    ],
)
def test_a_wrong_key_of_memory_is_named_with_its_line(tmp_path: Path, part: str, error: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        load(write(tmp_path, f"name: a\nmemory:\n  {part}\n"))
    assert error in str(raised.value)


CITY = """
from pydantic import BaseModel

class City(BaseModel):
    name: str

NUMBER = 5
"""


@pytest.mark.parametrize(
    "output", ["my_types:City", "{type: object, properties: {name: {type: string}}, required: [name]}"]
)
async def test_file_declares_the_type_of_answers(tmp_path: Path, output: str) -> None:
    (tmp_path / "my_types.py").write_text(CITY)
    loaded = load_agent(write(tmp_path, f"name: a\noutput: {output}\n"), model=ScriptedModel(['{"name": "Rome"}']))
    answer = await loaded.agent.run_async("?")
    assert (answer if isinstance(answer, dict) else answer.model_dump()) == {"name": "Rome"}


@pytest.mark.parametrize(
    ("output", "where", "why"),
    [
        ("5", "2: output", "must be"),
        ("{type: nope}", "2: output", "no JSON Schema: type"),
        ("my_types:NUMBER", "2: output", "invalid output 5"),
        ("my_types:Town", "2: output", "cannot import my_types:Town"),
        ("City", "2: output", "must be an import path"),
    ],
)
def test_output_that_is_no_type_is_named_with_its_line(tmp_path: Path, output: str, where: str, why: str) -> None:
    (tmp_path / "my_types.py").write_text(CITY)
    with pytest.raises(InvalidArgument) as wrong:
        load(write(tmp_path, f"name: a\noutput: {output}\n"))
    assert f"agent.yaml:{where}" in str(wrong.value)
    assert why in str(wrong.value)


async def test_sub_agent_in_a_file_has_an_output_of_its_own(tmp_path: Path) -> None:
    text = "name: a\nsub_agents:\n  b: {system_prompt: x, output: {type: array}}\n"
    loaded = load(write(tmp_path, text))
    sub_agent = loaded.agent.sub_agents["b"].agent
    assert isinstance(sub_agent, Agent)
    assert sub_agent.output is not None
    assert loaded.agent.output is None


def test_a_variable_of_a_file_with_crlf_has_no_carriage_return(tmp_path: Path) -> None:
    file = write(tmp_path, "name: a\ndescription: Reads ${TOPIC}.\nsystem_prompt: ${PROMPT}\n")
    loaded = load_agent(file, environment={"TOPIC": "books\r", "PROMPT": "You read.\r\n"})
    assert loaded.role.description == "Reads books."
    assert loaded.role.system_prompt.startswith("You read.") and "\r" not in loaded.role.system_prompt
