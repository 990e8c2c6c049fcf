"""A step with a tool does what its file says, or fails: no model makes up arguments, and results keep their types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from archon.errors import InvalidArgument
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.planning import PlanFailed
from archon_mesh.tools import tool
from archon_mesh.workflows import WorkflowPlanner
from archon_mesh.workflows.evaluate import truth
from archon_mesh.workflows.sandbox import template
from tests.unit.mesh.workflows.files import load

VALUES: list[Any] = [
    *(
        "4711",
        "true",
        "1.1",
        "null",
        "",
        "  ",
        "\n",
        '{"a": 1}',
        "[1, 2]",
        "Error: what it is",
        "Traceback: no",
        "None",
    ),
    *(
        None,
        [],
        {},
        0,
        7,
        1.5,
        True,
        False,
        [1, "1", None],
        {"error": "none"},
        {"a": {"b": []}},
        "é 你好",
        "{x} {{ y }}",
    ),
]
FULL: tuple[Any, ...] = (True, 1, 0.5, [0], {"a": 0})
EMPTY: tuple[Any, ...] = (False, 0, 0.0, None, [], {})


class Clerk:
    """An agent whose tools note what they are called with; its model must not be asked."""

    def __init__(self, value: Any = None) -> None:
        self.kept: list[Any] = []
        self.model = ScriptedModel(["the model wrote this"] * 5)

        @tool
        def give() -> Any:
            """Gives the value."""
            return value

        @tool
        def take(text: str) -> str:
            """Takes a text."""
            self.kept.append(text)
            return "taken"

        @tool
        def keep(value: Any = None) -> str:
            """Takes any value."""
            self.kept.append(value)
            return "kept"

        self.tools = [give, take, keep]

    async def run(self, folder: Path, steps: str, **arguments: Any) -> str:
        workflow = load(folder, f"name: w\n{steps}")
        async with Agent("clerk", tools=self.tools, model=self.model) as agent:
            answer: str = await agent.run_task("go", planner=WorkflowPlanner(workflow, arguments))
            return answer


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_result_reaches_the_next_step_as_it_is(tmp_path: Path, value: Any) -> None:
    clerk = Clerk(value)
    steps = "steps:\n- {tool: give, save_as: it}\n- {tool: keep, args: {value: '{{ it }}'}}\n"
    assert await clerk.run(tmp_path, steps) == "kept"
    (kept,) = clerk.kept
    assert (kept, type(kept)) == (value, type(value))
    assert clerk.model.requests == []


@pytest.mark.parametrize(
    "arguments", ["{text: 7}", "{}", "{text: x, other: y}", "{text: null}", "{text: [a]}"], ids=lambda each: str(each)
)
async def test_arguments_that_do_not_fit_fail_the_step(tmp_path: Path, arguments: str) -> None:
    clerk = Clerk()
    with pytest.raises(PlanFailed, match="the arguments do not fit the tool take"):
        await clerk.run(tmp_path, f"steps:\n- {{tool: take, args: {arguments}}}\n")
    assert (clerk.kept, clerk.model.requests) == ([], [])


async def test_a_tool_without_parameters_is_called_without_args(tmp_path: Path) -> None:
    clerk = Clerk("it")
    assert await clerk.run(tmp_path, "steps:\n- tool: give\n") == "it"
    assert clerk.model.requests == []


async def test_a_result_above_the_limit_of_its_tool_fails_the_step(tmp_path: Path) -> None:
    clerk = Clerk(list(range(60_000)))
    with pytest.raises(PlanFailed, match="has more than 262,144 bytes, the limit of the tool"):
        await clerk.run(tmp_path, "steps:\n- {tool: give, save_as: it}\n- {tool: keep, args: {value: x}}\n")
    assert clerk.kept == []


async def test_a_workflow_with_nothing_to_do_completes(tmp_path: Path) -> None:
    for steps in (
        "parameters: {mail: {type: boolean, default: false}}\nsteps:\n- {if: '{{ mail }}', then: [{tool: give}]}\n",
        "parameters: {items: {type: list, default: []}}\nsteps:\n- {for_each: '{{ items }}', steps: [{tool: give}]}\n",
    ):
        clerk = Clerk()
        assert await clerk.run(tmp_path, steps) == ""
        assert clerk.model.requests == []


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        *((text, True) for text in ("true", "True", " yes ", "ON", "1")),
        *((text, False) for text in ("false", "False", "no", "off", "0", "none", "None", "", "  \n")),
        *((value, True) for value in FULL),
        *((value, False) for value in EMPTY),
    ],
)
def test_conditions_follow_one_rule(value: Any, meaning: bool) -> None:
    values = {"x": value, "yes": "yes", "no": "no"}

    def holds(condition: str) -> bool:
        return template(f"{{{{ {condition} }}}}").is_true(values)

    assert truth(value) is meaning
    assert holds("x") is meaning
    assert holds("not x") is not meaning
    assert holds("not (not x)") is meaning
    assert holds("x and yes") is meaning
    assert holds("no or x") is meaning
    assert holds("not (x or no)") is not meaning
    assert holds("yes if x else no") is meaning
    assert not isinstance(value, str) or template("{% if yes %}{{ x }}{% endif %}").is_true(values) is meaning


@pytest.mark.parametrize("condition", ["x", "not x", "x and yes", "no or x", "yes if x else no"])
def test_a_text_that_is_neither_true_nor_false_is_an_error(condition: str) -> None:
    values = {"x": "Paris", "yes": "yes", "no": "no"}
    with pytest.raises(InvalidArgument, match="the text 'Paris' is neither true nor false: compare it"):
        template(f"{{{{ {condition} }}}}").is_true(values)
    assert template("{{ x == 'Paris' }}").is_true(values)
    assert not template("{{ no and x }}").is_true(values), "as in Python, what decides nothing is not looked at"


async def test_a_condition_on_a_text_fails_its_step_by_name(tmp_path: Path) -> None:
    clerk = Clerk("maybe")
    steps = "steps:\n- {tool: give, save_as: it}\n- {if: '{{ it }}', then: [{tool: keep}], else: [{tool: keep}]}\n"
    with pytest.raises(PlanFailed, match="workflow w@1, step step-2: the text 'maybe' is neither true nor false"):
        await clerk.run(tmp_path, steps)
    assert clerk.kept == []


@pytest.mark.parametrize(
    ("text", "value"),
    [("12:30", "12:30"), ("1:02:03.5", "1:02:03.5"), ("0471", "0471"), ("2024-01-01", "2024-01-01"), ("-7", -7)],
)
async def test_values_of_a_file_are_those_of_json(tmp_path: Path, text: str, value: Any) -> None:
    clerk = Clerk()
    await clerk.run(tmp_path, f"steps:\n- {{tool: keep, args: {{value: {text}}}}}\n")
    assert clerk.kept == [value]


@pytest.mark.parametrize("other", ["a-1", "a-12"])
def test_the_id_of_an_item_of_a_loop_is_taken(tmp_path: Path, other: str) -> None:
    steps = f"steps:\n- {{id: a, for_each: [1], steps: [{{tool: keep}}]}}\n- {{id: {other}, tool: keep}}\n"
    with pytest.raises(InvalidArgument, match=rf"steps\.1\.id: {other} is the id of a part of the step a"):
        load(tmp_path, f"name: w\n{steps}")
    load(tmp_path, f"name: w\n{steps}".replace("id: a,", "id: b,"))
