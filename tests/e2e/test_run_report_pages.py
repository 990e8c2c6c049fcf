"""docs/evals.md and docs/explaining-runs.md show what their commands print, in 80 columns; and how the commands fail."""

from __future__ import annotations

import getpass
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.shown_output import SKIP, constant, steps
from tests.e2e.small_mesh import PIPELINE, small_mesh
from tests.e2e.terminal import PATIENCE, Result, Terminal
from tests.fixtures.waiting import wait_until

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS = re.compile(
    r"^ *\d+  \d\d:\d\d:\d\d\.\d{3}\b|\b\d{4}-\d\d-\d\d(?= \(UTC\))|(?<=\bevent )\d+|(?<=\[)[\d,\s]+(?=\])", re.M
)
"""Times, and the numbers of events: when an answer is published depends on the memory service."""

INTERVAL = re.compile(r"^(  time .*?) +\([^()]*\)$", re.M)
"""The interval of the time of trials: there is none if all took as long."""


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    with small_mesh(tmp_path_factory.mktemp("mesh"), *PIPELINE, COLUMNS="80") as terminal:
        yield terminal


def words(text: str) -> str:
    """Returns a text without ids, times, numbers of events, the user, and line breaks."""
    text = INTERVAL.sub(r"\1", NUMBERS.sub("N", text))
    return " ".join(constant(text).replace(f"of {getpass.getuser()} ", "of root ").split())


def is_shown(shown: str, printed: str) -> bool:
    pieces = [re.escape(words(piece)) for piece in re.split(rf"^{re.escape(SKIP)}$", shown, flags=re.M)]
    user = re.escape(f"for {getpass.getuser()} ")
    return re.fullmatch(".*".join(pieces).replace("for\\ root\\ ", user), words(printed)) is not None


def runs(terminal: Terminal) -> list[str]:
    return [run["run_id"] for run in json.loads(terminal.archon("runs", "--json").out)]


@pytest.mark.parametrize("page", ["evals", "explaining-runs"])
def test_a_page_shows_what_its_commands_print(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = steps((DOCS / f"{page}.md").read_text())
    assert sum(bool(step.shown) for step in shown) >= 3
    for step in shown:
        printed = ""
        for line in step.commands.splitlines():
            if "RUN1" in line:
                right, left = runs(terminal)[:2]
                line = line.replace("RUN1", left).replace("RUN2", right)
            result = terminal.archon(*shlex.split(line)[1:])
            assert result.code in (0, 1) and not result.err, result
            if line.split()[1] in ("eval", "explain", "diff"):
                assert all(len(each) <= 80 for each in result.out.splitlines()), result.out
            printed += result.out
        assert is_shown(step.shown, printed) or not step.shown, f"{step.commands}\n{printed}"


@pytest.fixture(scope="module")
def data_set(terminal: Terminal, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of one run, which passes, and the results of an eval as its baseline."""
    folder = tmp_path_factory.mktemp("evals")
    assert terminal.archon("run", "Build a map. It must be free.", "--quiet").code == 0
    file = folder / "cases.jsonl"
    added = terminal.archon("dataset", "add", "last", "--id", "map", "--file", str(file), "--expect", "answer")
    assert added.code == 0, added
    result = terminal.archon("eval", str(file), "--save", str(folder / "baseline.json"))
    assert result.code == 0, result
    return file


def evaluate(terminal: Terminal, *arguments: str | Path) -> Result:
    return terminal.archon("eval", *map(str, arguments))


def test_a_case_below_its_threshold_is_exit_code_one(terminal: Terminal, data_set: Path, tmp_path: Path) -> None:
    case = json.loads(data_set.read_text())
    broken = tmp_path / "broken.jsonl"
    broken.write_text("".join(json.dumps(case | {"id": f"map-{n}", "answer": "other"}) + "\n" for n in range(8)))
    junit = tmp_path / "eval.xml"
    result = evaluate(terminal, broken, "--junit", junit)
    assert result.code == 1 and "FAILED: 8 cases below the threshold." in result.out
    assert "map-0  0 of 1  exact: at character 1: expected 'other', got 'Offline model" in result.out
    suite = ElementTree.parse(junit).getroot().find("testsuite")
    assert suite is not None and suite.get("failures") == "8"
    before = tmp_path / "before.jsonl"
    before.write_text("".join(json.dumps(case | {"id": f"map-{n}"}) + "\n" for n in range(8)))
    assert evaluate(terminal, before, "--save", tmp_path / "before.json").code == 0
    lenient = tmp_path / "lenient.jsonl"
    lenient.write_text(broken.read_text().replace('"id"', '"threshold": 0.0, "id"'))
    worse = evaluate(terminal, lenient, "--against", tmp_path / "before.json", "--json")
    document = json.loads(worse.out)
    assert worse.code == 1 and document["passed"] and document["comparison"]["regressed"]
    assert evaluate(terminal, lenient).code == 0


def test_the_origin_and_earlier_runs_are_baselines(terminal: Terminal, data_set: Path) -> None:
    for baseline in ("origin", "last", data_set.parent / "baseline.json"):
        result = evaluate(terminal, data_set, "--against", baseline, "--json")
        assert json.loads(result.out)["comparison"]["compared_cases"] == 1, result
    rescored = evaluate(terminal, data_set, "--score", data_set.parent / "baseline.json")
    assert rescored.code == 0 and "1 case, " in rescored.out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["none.jsonl"], 4, "there is no file none.jsonl"),
        (["FILE", "--against", "nothing"], 4, "there is no file and no run 'nothing', for --against"),
        (["FILE", "--case", "nothing"], 2, "no case with the id or tag 'nothing'"),
        (["FILE", "--version", "designer"], 2, "invalid --version 'designer': expected ROLE=VERSION"),
        (["FILE", "--budget-usd", "0"], 2, "--budget-usd must be 0.000001 to 1,000,000"),
        (["FILE", "--judge", "wise"], 2, "unknown model 'wise'"),
        (["FILE", "--gate", "beauty"], 2, "'beauty' is not one of"),
        (["FILE", "--score", "FILE"], 2, "has no format"),
        (["FILE", "--junit", "/nowhere/x.xml"], 1, "cannot write /nowhere/x.xml"),
    ],
)
def test_wrong_use_of_evals_says_so(
    terminal: Terminal, data_set: Path, arguments: list[str], code: int, message: str
) -> None:
    result = evaluate(terminal, *(str(data_set) if argument == "FILE" else argument for argument in arguments))
    assert result.code == code and message in result.err, result


def test_wrong_data_sets_and_expectations_say_so(terminal: Terminal, data_set: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": "x", "goal": "y", "expect": [{"scorer": "python", "function": "no_such:module"}]}\n')
    result = evaluate(terminal, wrong)
    assert result.code == 2 and "case x: cannot import no_such:module" in result.err
    wrong.write_text("{\n")
    assert "line 1 is not JSON" in evaluate(terminal, wrong).err
    add = ("dataset", "add", "last", "--file", str(data_set), "--id", "map")
    assert "has a case 'map' already" in terminal.archon(*add).err
    for expect, message in (
        ("cost:much", "has no number"),
        ("{x", "is not JSON"),
        ("{}", "has no scorer"),
        (" ", "is empty"),
    ):
        result = terminal.archon(*add, "--expect", expect)
        assert result.code == 2 and message in result.err, result
    result = terminal.archon(*add, "--expect", "schema")
    assert result.code == 1 and "is not JSON: it has no schema" in result.err


def test_diff_has_the_exit_codes_of_diff(terminal: Terminal) -> None:
    for goal in ("Build a map.", "Build a map.", "Build a bank."):
        assert terminal.archon("run", goal, "--quiet").code == 0
    bank, second, first = runs(terminal)[:3]
    same = terminal.archon("diff", first, second)
    assert same.code == 0 and "The runs are the same, apart from ids, instances and times." in same.out
    assert terminal.archon("diff", first, bank).code == 1
    document = json.loads(terminal.archon("diff", first, bank, "--json").out)
    assert not document["same"] and document["prompts"] and document["fields"]["goal"]["right"] == "Build a bank."
    assert terminal.archon("diff", first, "0" * 32).code == 4
    assert terminal.archon("diff", first).code == 2


def test_explain_in_json_has_evidence_confidence_and_record(terminal: Terminal) -> None:
    assert terminal.archon("run", "Build a map.", "--quiet").code == 0
    developer = json.loads(terminal.archon("explain", "last", "--for", "developer", "--json").out)
    assert {"conclusion", "confidence", "evidence"} <= developer.keys() and "record" not in developer
    auditor = json.loads(terminal.archon("explain", "last", "--for", "auditor", "--json").out)
    assert [line["seq"] for line in auditor["record"]] == list(range(1, len(auditor["record"]) + 1))
    worded = terminal.archon("explain", "last", "--model", "offline")
    assert "Worded by the model offline; the facts are below." in worded.out and "The goal of" in worded.out
    assert terminal.archon("explain", "last", "--for", "children").code == 2
    assert terminal.archon("explain", "last", "--model", "wise").code == 2
    assert terminal.archon("explain", "0" * 32).code == 4


@pytest.mark.slow
def test_an_expired_run_is_explained_without_its_record(tmp_path: Path) -> None:
    with small_mesh(tmp_path, *PIPELINE, ARCHON_COMPACT_AFTER="1", COLUMNS="80") as terminal:
        assert terminal.archon("run", "Build a map.", "--quiet").code == 0
        wait_until(lambda: terminal.archon("explain", "last", "--for", "auditor").code == 1, within=PATIENCE)
        text = terminal.archon("explain", "last").out
        assert text.startswith("The details of the run were removed by retention") and "3 roles worked on it" in text
        assert "were removed by retention" in terminal.archon("diff", "last", "last").out
