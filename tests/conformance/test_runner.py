"""The runner of the scenarios: patterns, files, reports."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from archon.api.agent.v1 import session_pb2
from archon.conformance import Case, Options, Outcome, Report, Scenario, cases_of, chosen, load_scenarios, run_cases
from archon.conformance.patterns import fault, resolve
from archon.conformance.report import read_expected
from archon.conformance.values import fill, to_value
from archon.errors import InvalidArgument

SCENARIO = """
area: small
mode: agent
scenarios:
  - name: <letter>-is-tried
    does: Something is tried.
    on: [dialled]
    each: [{letter: a}, {letter: b}]
    steps:
      - open: {}
"""


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 0}, {}, True),
        ({"a": ""}, {"a": "x"}, False),
        ({"a": {"$any": True}}, {}, False),
        ({"a": {"$absent": True}}, {}, True),
        ([1, {"b": 2}], [1, {"b": 2, "c": 3}], True),
        ([1], [1, 2], False),
        ([], None, True),
        ({"$has": {"a": 1}}, [{"a": 2}, {"a": 1}], True),
        ({"$has": "ell"}, "hello", True),
        ({"$re": "^h.*o$"}, "hello", True),
        ({"$between": [1, 2]}, 1.5, True),
        ({"$between": [1, 2]}, 2.5, False),
        ({"$size": [1, 3]}, "ab", True),
        ({"$json": [1, {"a": 2}]}, '[1, {"a": 2}]', True),
        ({"$json": [1]}, "no JSON", False),
        ({"$not": "x"}, "y", True),
        ({"$one_of": ["x", "y"]}, "y", True),
        (True, 1, False),
    ],
)
def test_a_pattern_matches_as_documented(pattern: object, value: object, matches: bool) -> None:
    assert (not fault(pattern, value, {})) is matches


def test_captures_count_only_if_all_matches() -> None:
    names: dict[str, object] = {}
    assert fault({"a": {"$as": "first"}, "b": 1}, {"a": 7, "b": 2}, names)
    assert not names
    assert not fault({"a": {"$as": "first"}, "b": 1}, {"a": 7, "b": 1}, names)
    assert names == {"first": 7}
    assert not fault({"b": "$first", "c": "no. ${first}"}, {"b": 7, "c": "no. 7"}, names)


def test_an_unknown_reference_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing is named"):
        resolve({"a": "$nothing"}, {})


def test_a_frame_survives_the_way_to_a_value_and_back() -> None:
    value = {
        "task": {"task_id": "t", "run_id": "r", "attempt": 2, "epoch": 3},
        "sequence": 1,
        "result": {
            "state": "FAILED",
            "failure": {"code": 5, "reason": "UNKNOWN_ROLE", "retry_delay": 1.5, "metadata": {"a": "b"}},
            "checkpoint": {"hex": "ff00"},
        },
    }
    frame = session_pb2.AgentFrame()
    fill(frame, value)
    assert to_value(session_pb2.AgentFrame.FromString(frame.SerializeToString())) == value


def test_a_field_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match="no field"):
        fill(session_pb2.AgentFrame(), {"nothing": 1})


def test_a_file_gives_a_case_for_each_value_and_security(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    cases = cases_of(load_scenarios(tmp_path))
    assert [case.name for case in cases] == [
        "small/a-is-tried [dialled plain]",
        "small/a-is-tried [dialled mtls]",
        "small/b-is-tried [dialled plain]",
        "small/b-is-tried [dialled mtls]",
    ]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("does: Something is tried.", "", "needs a sentence"),
        ("on: [dialled]", "onn: [dialled]", "unknown keys onn"),
        ("- open: {}", "- open: {}\n        send: {}", "one action"),
        ("<letter>-is-tried", "same", "the same name"),
    ],
)
def test_a_file_with_a_fault_is_refused(tmp_path: Path, before: str, after: str, message: str) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO.replace(before, after))
    with pytest.raises(InvalidArgument, match=message):
        load_scenarios(tmp_path)


def test_cases_are_chosen_by_area_name_and_pattern(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)

    def count(*names: str, security: str = "") -> int:
        return len(chosen(Options(subject="", names=names, security=security, folder=tmp_path)))

    assert (count(), count("small"), count("small/a-is-tried"), count("a-is-tried")) == (4, 4, 2, 2)
    assert (count("small/b*"), count("small/a-is-tried [dialled mtls]"), count(security="plain")) == (2, 1, 2)
    with pytest.raises(InvalidArgument, match="no such cases"):
        count("nothing")


def test_an_expected_failure_that_passes_fails_the_report() -> None:
    bad, good = _outcome("a", "it failed"), _outcome("b", "")
    assert Report([bad, good], frozenset({"small/a"}), 1.0).passed
    assert not Report([bad, good], frozenset(), 1.0).passed
    report = Report([bad, good], frozenset({"small/a", "small/b"}), 1.0)
    assert not report.passed
    assert "PASSED, though" in report.text()


def test_a_report_is_written_for_people_json_and_junit(tmp_path: Path) -> None:
    report = Report([_outcome("a", "it\x00 failed"), _outcome("b", "")], frozenset(), 1.0)
    assert "FAILED small/a [dialled plain]: Something" in report.text()
    assert report.as_json()["areas"] == {"small": {"passed": 1, "failed": 1, "expected_failures": 0}}
    report.write_junit(tmp_path / "report.xml")
    suite = ElementTree.parse(tmp_path / "report.xml").getroot()
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")


def test_a_list_of_expected_failures_names_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "expected.yaml"
    path.write_text("- small/a  # not yet\n")
    assert read_expected(path, ["small/a"]) == {"small/a"}
    with pytest.raises(InvalidArgument, match="small/a"):
        read_expected(path, ["small/b"])


async def test_a_subject_that_does_not_start_fails_each_case(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SCENARIO)
    command = f"{sys.executable} -c \"import sys; sys.exit('no licence')\""
    report = await run_cases(Options(subject=command, folder=tmp_path, security="plain"))
    assert len(report.failed) == 2
    assert all("no licence" in outcome.fault for outcome in report.failed)


def _outcome(name: str, why: str) -> Outcome:
    scenario = Scenario(
        f"small/{name}",
        "small",
        "agent",
        "Something",
        (),
        ("dialled",),
        ("plain",),
        {},
        False,
        False,
        "",
        True,
        (),
        name,
    )
    return Outcome(Case(scenario, "dialled", "plain"), why, 0.1)
