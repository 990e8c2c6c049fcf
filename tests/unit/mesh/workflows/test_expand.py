"""What is known of a workflow, given the results so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import InvalidArgument
from archon_mesh.engine.plan import fill_arguments
from archon_mesh.engine.plan.templates import escaped
from archon_mesh.workflows import Later, StepResult, Workflow, expand
from tests.unit.mesh.workflows.files import known, load

TWO = json.dumps([{"number": "A1"}, {"number": "B2"}])


def test_first_only_what_needs_no_result_is_known(tmp_path: Path) -> None:
    subtasks = known(load(tmp_path), city="Rome")
    assert list(subtasks) == ["flights", "texts", "step-3"]
    assert subtasks["flights"].tool_args == {"to": "Rome"}
    assert subtasks["flights"].critical
    assert [each.expand for each in subtasks.values()] == [False, True, True]
    assert subtasks["step-3"].dependencies == ("texts", "flights")


def test_a_loop_over_a_result_is_known_once_it_is_there(tmp_path: Path) -> None:
    subtasks = known(load(tmp_path), {"flights": TWO}, city="Rome")
    assert list(subtasks) == ["flights", "texts-1/step-1", "texts-2/step-1", "step-3/step-1"]
    assert subtasks["texts-2/step-1"].description == "Describe B2"
    assert subtasks["texts-2/step-1"].dependencies == ("flights",), "all items at once"
    assert subtasks["step-3/step-1"].expand
    results = {"flights": TWO, "texts-1/step-1": "one", "texts-2/step-1": "two"}
    subtasks = known(load(tmp_path), results, city="Rome")
    assert subtasks["step-3/step-1"].description == "Compare: one; two"
    assert not any(each.expand for each in subtasks.values())


def test_the_other_branch_is_taken_for_one_item(tmp_path: Path) -> None:
    results = {"flights": '[{"number": "A1"}]', "texts-1/step-1": "one"}
    assert known(load(tmp_path), results, city="Rome")["step-3/step-1"].description == "The only one: one"


def test_an_empty_loop_has_no_steps_and_an_empty_list(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n- {tool: a, save_as: l}\n- {for_each: '{{ l }}', save_as: r, steps: [{task: y}]}\n"
    subtasks = known(load(tmp_path, text + "- task: 'got {{ r }}'"), {"l": "[]"})
    assert list(subtasks) == ["l", "step-3"]
    assert subtasks["step-3"].description == "got []"
    assert subtasks["step-3"].dependencies == ("l",)


def test_items_in_order_follow_each_other(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n- for_each: [a, b]\n  as: part\n  in_order: true\n  steps: [{task: 'do {{ part }}'}]\n- task: end"
    subtasks = known(load(tmp_path, text))
    assert subtasks["step-1-2/step-1"].dependencies == ("step-1-1/step-1",)
    assert subtasks["step-2"].dependencies == ("step-1-2/step-1",)


def test_parallel_steps_start_together_and_are_joined(tmp_path: Path) -> None:
    text = (
        "name: x\nsteps:\n- task: first\n- parallel:\n  - {task: a, save_as: a}\n  - {task: b}\n"
        "  save_as: both\n- task: '{{ a }} of {{ both | length }}'"
    )
    subtasks = known(load(tmp_path, text), {"step-1": "", "both/a": "A", "both/step-2": "B"})
    assert subtasks["both/a"].dependencies == subtasks["both/step-2"].dependencies == ("step-1",)
    assert subtasks["step-3"].dependencies == ("both/a", "both/step-2")
    assert subtasks["step-3"].description == "A of 2"


def test_a_called_workflow_sees_its_parameters_only(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n- {task: sum, save_as: total}\n- {workflow: pay, args: {sum: '{{ total }}'}, save_as: r}\n"
    pay = "name: pay\nparameters: {sum: {type: integer}}\nsteps: [{task: 'pay {{ sum }}', save_as: receipt}]"
    workflow = load(tmp_path, text + "- task: 'got {{ r }}'", pay=pay)
    assert known(workflow)["r"].expand
    assert known(workflow, {"total": "12"})["r/receipt"].description == "pay 12"
    assert known(workflow, {"total": "12", "r/receipt": "R7"})["step-3"].description == "got R7"
    with pytest.raises(InvalidArgument, match="x@1, step r: workflow pay@1: sum: must be a whole number"):
        known(workflow, {"total": "much"})


ON_ERROR = "name: x\nsteps:\n- {{task: book, save_as: b, on_error: {0}}}\n- task: 'pay {{{{ b }}}}'\n"


def test_a_failed_step_is_tried_again_in_its_place(tmp_path: Path) -> None:
    workflow = load(tmp_path, ON_ERROR.format("{retry: 1}"))
    first = known(workflow)["b"]
    assert (first.critical, first.expand_on_failure) == (False, True)
    again = known(workflow, {"b": ValueError("full")})
    assert list(again) == ["b", "b~2", "step-2"]
    assert (again["b~2"].critical, again["b~2"].expand_on_failure) == (True, False)
    assert again["step-2"].dependencies == ("b~2",)
    assert known(workflow, {"b": ValueError("full"), "b~2": "room 7"})["step-2"].description == "pay room 7"


def test_a_step_that_may_fail_leaves_none(tmp_path: Path) -> None:
    workflow = load(tmp_path, ON_ERROR.format("continue"))
    subtasks = known(workflow, {"b": ValueError("full")})
    assert subtasks["step-2"].description == "pay "
    assert subtasks["step-2"].dependencies == ()


def test_an_error_branch_reads_the_error(tmp_path: Path) -> None:
    workflow = load(tmp_path, ON_ERROR.format("{steps: [{task: 'undo {{ error.step }}: {{ error.message }}'}]}"))
    subtasks = known(workflow, {"b": ValueError("full")})
    assert subtasks["b/on_error/step-1"].description == "undo b: full"
    assert subtasks["step-2"].dependencies == ("b/on_error/step-1",)
    subtasks = known(workflow, {"b": ValueError("full"), "b/on_error/step-1": "a hostel"})
    assert subtasks["step-2"].description == "pay a hostel"


def test_an_approval_is_a_call_of_its_tool(tmp_path: Path) -> None:
    text = "name: x\nparameters: {p: {}}\nsteps: [{approve: 'Pay {{ p }}?', on_error: continue}]"
    subtask = known(load(tmp_path, text), p="{all}")["step-1"]
    assert (subtask.tool_name, subtask.description) == ("approve", "Pay {all}?")
    assert fill_arguments(subtask.tool_args, {"all": "nothing"}) == {"question": "Pay {all}?"}
    text = (
        "name: x\nparameters: {who: {}}\n"
        "steps: [{approve: 'Pay?', approvers: ['{{ who }}'], timeout: 60, on_timeout: default, default: reject}]"
    )
    (subtask,) = expand(load(tmp_path, text), {"who": "ann"}, {}).subtasks
    terms = {"approvers": ["ann"], "timeout": 60.0, "on_timeout": "default", "default": "reject"}
    assert subtask.tool_args == {"question": "Pay?", **terms}


@pytest.mark.parametrize(
    ("arguments", "faults"),
    [
        ({}, ["city: is missing"]),
        ({"city": 1, "nights": "two"}, ["city: must be a text", "nights: must be a whole number"]),
        ({"city": "Rome", "nigths": 2}, ["nigths: is no parameter; there are city, nights"]),
        ({"city": "Rome", "nights": True}, ["nights: must be a whole number"]),
    ],
)
def test_wrong_arguments_are_named_each(tmp_path: Path, arguments: dict[str, Any], faults: list[str]) -> None:
    with pytest.raises(InvalidArgument) as raised:
        expand(load(tmp_path), arguments, {})
    assert [f"{each.field}: {each.description}" for each in raised.value.field_violations] == faults


def test_a_result_that_does_not_fit_names_the_step(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"workflow trip@2, step texts: for_each: the value is str, not a list"):
        known(load(tmp_path), {"flights": "none found"}, city="Rome")
    with pytest.raises(InvalidArgument, match=r"step texts-1/step-1: .*number"):
        known(load(tmp_path), {"flights": "[{}]"}, city="Rome")
    with pytest.raises(InvalidArgument, match="the list has 201 items, at most 200"):
        known(load(tmp_path), {"flights": json.dumps([1] * 201)}, city="Rome")


def test_the_number_of_steps_is_bounded(tmp_path: Path) -> None:
    nested = "{for_each: '{{ range(100) | list }}', steps: [{for_each: '{{ range(100) | list }}', steps: [{task: x}]}]}"
    with pytest.raises(InvalidArgument, match="more than 1,000 steps"):
        known(load(tmp_path, f"name: x\nsteps: [{nested}]"))


def test_more_results_change_nothing_that_was_known(tmp_path: Path) -> None:
    workflow = load(tmp_path)
    results: dict[str, Any] = {}
    before = known(workflow, results, city="Rome")
    for _ in range(5):
        results |= {id_: TWO for id_, subtask in before.items() if not subtask.expand}
        after = known(workflow, results, city="Rome")
        assert {id_: after[id_] for id_ in results} == {id_: before[id_] for id_ in results if id_ in before}
        before = after
    assert not any(subtask.expand for subtask in before.values())
    ended = {id_: StepResult(TWO) for id_ in before}
    assert not isinstance(expand(workflow, {"city": "Rome"}, ended).value, Later)


def test_a_workflow_is_the_same_after_a_run_carried_it(tmp_path: Path) -> None:
    workflow = load(tmp_path, "name: x\nsteps: [{workflow: pay}]", pay="name: pay\nsteps: [{task: pay}]")
    again = Workflow.from_json_value(json.loads(json.dumps(workflow.to_json_value())))
    assert known(again) == known(workflow)
    broken: Any
    for broken in ({}, [], {"content": {}, "calls": {}}, {"content": None, "calls": []}):
        with pytest.raises(InvalidArgument):
            Workflow.from_json_value(broken)


@given(st.text(alphabet="{}ab.", max_size=30))
def test_no_text_becomes_a_template_of_the_plan(text: str) -> None:
    assert fill_arguments({"x": escaped(text)}, {"a": "filled", "b": {"a": "filled"}, "ab": 1}) == {"x": text}


def test_step_has_the_schema_of_its_result(tmp_path: Path) -> None:
    text = "name: x\nsteps:\n- {role: a, task: y, output: {type: array, items: {pattern: '{{ x }}'}}}\n"
    assert known(load(tmp_path, text))["step-1"].output_schema == {"type": "array", "items": {"pattern": "{{ x }}"}}


def test_conditions_without_end_are_refused(tmp_path: Path) -> None:
    inner = '{if: "{{ false }}", then: [{task: t}]}'
    for name in "abc":
        inner = f'{{for_each: "{{{{ numbers }}}}", as: {name}, steps: [{inner}]}}'
    workflow = load(tmp_path, f"name: x\nparameters: {{numbers: {{type: list}}}}\nsteps: [{inner}]")
    with pytest.raises(InvalidArgument, match="more than 20,000 steps and conditions are evaluated"):
        expand(workflow, {"numbers": list(range(200))}, {})
