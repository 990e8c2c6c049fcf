"""Data sets, results, comparisons and JUnit of evals, without a mesh."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from archon.errors import AlreadyExists, InvalidArgument, NotFound
from archon_mesh.evals import (
    Case,
    CaseResult,
    EvalReport,
    Score,
    Trajectory,
    Trial,
    compare,
    evaluate,
    junit_xml,
    parse_cases,
    parse_report,
    read_cases,
    to_lines,
)
from archon_mesh.evals.case import case_of
from archon_mesh.evals.collect import inferred_schema
from archon_mesh.evals.files import add_case
from archon_mesh.recorded import RecordedRun


def make_case(case_id: str, answer: str = "yes", **fields: Any) -> Case:
    return case_of({"id": case_id, "goal": "?", "expect": [{"scorer": "exact", "answer": answer}], **fields})


def report(passes: dict[str, list[bool]], *, cost: float = 0.01, seconds: float = 1.0) -> EvalReport:
    return EvalReport(
        tuple(
            CaseResult(
                case_id,
                tuple(
                    Trial(
                        passed,
                        (Score("exact", float(passed), passed, "" if passed else "no"),),
                        "r",
                        "completed",
                        cost_usd=cost,
                        tokens=100,
                        seconds=seconds,
                    )
                    for passed in trials
                ),
            )
            for case_id, trials in passes.items()
        )
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no cases"),
        ("{", "line 1 is not JSON"),
        ("[]", "line 1 is not a JSON object"),
        ('# a comment\n\n{"id": "a"}', "line 3 is invalid: goal: Field required; expect: Field required"),
        ('{"id": "a", "goal": "x", "expect": [], "rolls": []}', "rolls: Extra inputs"),
        ('{"id": "a", "goal": " ", "expect": [{"scorer": "exact"}]}', "goal: is empty"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "magic"}]}', "'magic' found using 'scorer'"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "regex", "pattern": "("}]}', "is no regular expression"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "contains"}]}', "names no text"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "exact", "name": "run.cost_usd"}]}', "a metric of every eval"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "python", "function": "os"}]}', "module:function"),
        ('{"id": "a", "goal": [{"text": "x", "url": "y"}], "expect": [{"scorer": "exact"}]}', "exactly one of"),
        ('{"id": "a", "goal": "x", "expect": [{"scorer": "exact"}]}\n' * 2, "is there already, in line 1"),
    ],
)
def test_a_wrong_data_set_is_refused_with_line_and_key(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_cases(text)
    assert message in str(refused.value)


def test_a_data_set_reads_as_it_was_written(tmp_path: Path) -> None:
    cases = [
        make_case("a", roles=["x"], strategy="agent", threshold=0.5, timeout=3.0, tags=["quick"], answers=["1"]),
        make_case("b", goal=[{"text": "look"}, {"raw": "aGk=", "filename": "x.png", "media_type": "image/png"}]),
    ]
    assert parse_cases(to_lines(cases)) == cases
    assert [part.raw for part in cases[1].submission()] == [None, b"hi"]  # type: ignore[union-attr]
    file = tmp_path / "cases.jsonl"
    assert [add_case(file, case) for case in cases] == [1, 2]
    with pytest.raises(AlreadyExists):
        add_case(file, cases[0])
    file.write_text(file.read_text().rstrip("\n"))
    assert add_case(file, make_case("c")) == 3
    assert add_case(file, make_case("a", "no"), replace=True) == 3
    assert [case.id for case in read_cases(file)] == ["a", "b", "c"]
    with pytest.raises(NotFound):
        read_cases(tmp_path / "none.jsonl")


async def test_functions_are_evaluated_without_a_mesh() -> None:
    running = most = 0

    async def answer(case: Case) -> str | Trajectory:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0)
        running -= 1
        if case.id == "slow":
            await asyncio.Event().wait()
        if case.id == "broken":
            raise InvalidArgument("no")
        return Trajectory("yes", cost_usd=0.5) if case.id == "dear" else "yes"

    cases = [make_case("good"), make_case("dear"), make_case("broken"), make_case("slow", timeout=0.01)]
    found = await evaluate(cases, answer, repeat=4, parallel=3)
    assert [case.pass_rate for case in found.cases] == [1, 1, 0, 0] and most == 3
    assert found.spent_usd == 2 and not found.passed
    assert found.cases[2].trials[0].reasons == ["the run ended failed: no"]
    assert "no answer within 0.01 s" in found.cases[3].trials[0].reasons[0]
    for wrong in (
        {"repeat": 0},
        {"repeat": 10**6},
        {"parallel": 0},
        {"parallel": 257},
        {"budget_usd": 0.0},
        {"budget_usd": float("nan")},
    ):
        with pytest.raises(InvalidArgument):
            await evaluate(cases, answer, **wrong)
    with pytest.raises(InvalidArgument, match="same id"):
        await evaluate([cases[0], cases[0]], answer)


def test_a_case_passes_from_its_threshold_on() -> None:
    trials = report({"a": [True, True, False]}).cases[0].trials
    assert CaseResult("a", trials, 2 / 3).passed and not CaseResult("a", trials, 0.7).passed
    assert CaseResult("a", (Trial(None, skipped="budget"),)).passed is None


def test_results_read_as_they_were_written() -> None:
    first = report({"a": [True, False], "b": [True, True]})
    assert parse_report(json.dumps(first.document())).document() == first.document()
    for text, message in (
        ("{", "not JSON"),
        ("{}", "has no format"),
        ('{"format": "archon-eval/9"}', "archon-eval/9"),
        ('{"format": "archon-eval/1"}', "is damaged"),
    ):
        with pytest.raises(InvalidArgument) as refused:
            parse_report(text)
        assert message in str(refused.value)


def test_a_drop_of_passes_beyond_noise_is_a_regression() -> None:
    before = report({f"case-{number}": [True] for number in range(50)})
    one_worse = compare(report({f"case-{number}": [number > 0] for number in range(50)}), before)
    assert one_worse.broken == ("case-0",) and not one_worse.regressed
    eight_worse = compare(report({f"case-{number}": [number > 7] for number in range(50)}), before)
    assert [change.metric for change in eight_worse.regressions] == ["passed"]
    change = eight_worse.regressions[0]
    assert change.p_value == pytest.approx(2 / 2**8) and change.paired and change.difference.high < 0
    better = compare(before, report({f"case-{number}": [number > 7] for number in range(50)}))
    assert better.changes[0].verdict == "better" and len(better.fixed) == 8


def test_cost_is_a_regression_only_as_a_gate() -> None:
    before, after = (report({str(number): [True] for number in range(20)}, cost=cost) for cost in (0.01, 0.02))
    change = next(change for change in compare(after, before).changes if change.metric == "run.cost_usd")
    assert change.verdict == "worse" and not compare(after, before).regressed
    assert compare(after, before, also=["run.cost_usd"]).regressed
    little = report({str(number): [True] for number in range(20)}, cost=0.0105)
    assert not compare(little, before, also=["run.cost_usd"]).regressed


def test_results_without_common_cases_are_compared_by_their_means() -> None:
    before = report({f"old-{number}": [True] for number in range(20)})
    after = report({f"new-{number}": [number > 9] for number in range(20)})
    found = compare(after, before)
    assert found.compared == 0 and found.regressed and not found.changes[0].paired
    assert len(found.missing) == 20


def test_junit_names_failures_errors_and_regressions() -> None:
    passes = {f"case-{number}": [number > 7] for number in range(20)}
    results = report(passes)
    broken = CaseResult("lost \x00\x1b<&", (Trial(False, error="no such role \x07"),))
    skipped = CaseResult("left", (Trial(None, skipped="the budget is used up"),))
    whole = EvalReport((*results.cases, broken, skipped), "cases.jsonl", created=1_700_000_000)
    comparison = compare(results, report({case_id: [True] for case_id in passes}))
    suite = ElementTree.fromstring(junit_xml(whole, comparison)).find("testsuite")
    assert suite is not None
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped", "timestamp")} == {
        "tests": "23",
        "failures": "9",
        "errors": "1",
        "skipped": "1",
        "timestamp": "2023-11-14T22:13:20",
    }
    names = [case.get("name") for case in suite.iter("testcase")]
    assert names[20] == "lost \ufffd\ufffd<&" and names[-1] == "regression of passed"
    assert [failure.get("message") for failure in suite.iter("error")] == ["no such role \ufffd"]


def test_a_schema_is_inferred_with_its_keys_and_types() -> None:
    value = {"total": 3, "items": [{"name": "a"}, {"name": None}], "done": True, "tags": []}
    schema = inferred_schema(value)
    assert schema["required"] == ["total", "items", "done", "tags"]
    assert schema["properties"]["total"] == {"type": "number"}
    assert len(schema["properties"]["items"]["items"]["anyOf"]) == 2


def test_a_run_without_an_answer_makes_no_case() -> None:
    from archon.api.orchestrator.v1 import run_pb2
    from archon.errors import FailedPrecondition
    from archon.types import Run
    from archon_mesh.evals import case_from_run

    with pytest.raises(FailedPrecondition, match="has no answer"):
        case_from_run(RecordedRun(Run(run_pb2.Run(run_id="a" * 32))))
