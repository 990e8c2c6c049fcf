"""The summary of a run: costs, and the columns that a narrow terminal has room for."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.types.part import json_part
from archon_services.cli.render import output, run_summary
from archon_services.cli.render.run_summary import print_answer, print_summary


def run_of(cost: int) -> run_pb2.Run:
    """A run of two tasks; the first costs all."""
    run = run_pb2.Run(run_id="r1", state=common_pb2.TASK_STATE_COMPLETED)
    for number, role in enumerate(("requirements", "implementer")):
        task = run.tasks.add(role=role, state=common_pb2.TASK_STATE_COMPLETED, attempt=1, instance_id=f"{role}-1a2b3c")
        task.start_time.seconds, task.end_time.seconds = 100, 130
        task.usage.input_tokens, task.usage.output_tokens = 112_345, 12_345
        task.usage.cost_micro_usd = 0 if number else cost
    run.usage.input_tokens, run.usage.output_tokens, run.usage.cost_micro_usd = 224_690, 24_690, cost
    return run


def test_summary_has_the_cost_per_task_and_in_total(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(run_of(123_456), {})
    lines = capsys.readouterr().out.splitlines()
    header, first, second = [line.split() for line in lines if line.startswith(("role", "requirements", "implementer"))]
    assert header[-2:] == ["cost", "instance"]
    assert (first[-2], second[-2]) == ("$0.123456", "-")
    assert "24,690 out, $0.123456." in " ".join(lines)


def test_summary_of_a_free_run_says_nothing_of_costs(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(run_of(0), {})
    text = capsys.readouterr().out
    assert "cost" not in text and "$" not in text


@pytest.mark.parametrize("cost", [0, 12_345_678])
def test_summary_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cost: int
) -> None:
    narrow = Console(width=80, force_terminal=True, color_system=None)
    for module in (output, run_summary):
        monkeypatch.setattr(module, "is_terminal", lambda: True)
        monkeypatch.setattr(module, "console", lambda: narrow)
    print_summary(run_of(cost), {})
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert any("1a2b3c" in line for line in lines)
    assert ("$12.345678" in " ".join(lines)) == bool(cost)


def answered(*parts: common_pb2.Part) -> run_pb2.Run:
    run = run_pb2.Run(run_id="r1")
    run.answers.add(role="clerk", parts=parts)
    return run


def test_json_answer_is_printed_with_a_line_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(answered(json_part('{"city":"Köln","people":[1,2]}').proto))
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"city": "Köln", "people": [1, 2]}
    assert '  "city": "Köln",\n' in printed


@pytest.mark.parametrize("text", ['{"city":"Rome"}', "not [JSON"])
def test_other_answers_are_printed_as_they_are(capsys: pytest.CaptureFixture[str], text: str) -> None:
    print_answer(answered(common_pb2.Part(text=text)))
    assert capsys.readouterr().out == f"{text}\n"


def test_broken_json_of_an_agent_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    print_answer(answered(json_part("{broken").proto))
    assert capsys.readouterr().out == "{broken\n"


def test_json_answer_on_a_terminal_is_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wide = Console(width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(run_summary, "is_terminal", lambda: True)
    monkeypatch.setattr(run_summary, "console", lambda: wide)
    print_answer(answered(json_part('{"a*b*":"_x_"}').proto))
    assert '"a*b*": "_x_"' in capsys.readouterr().out
