"""`archon export` and `archon replay` print what docs/replay.md shows, on the shared mesh."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from tests.e2e.shown_output import Step, matches, steps
from tests.e2e.terminal import Terminal

PAGE = Path(__file__).parents[2] / "docs" / "replay.md"


@pytest.fixture(scope="module")
def shown() -> dict[str, Step]:
    """The commands of the page with their outputs."""
    return {step.commands.strip(): step for step in steps(PAGE.read_text())}


@pytest.fixture(scope="module")
def run_file(
    terminal: Terminal, finished: str, shown: dict[str, Step], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    file = tmp_path_factory.mktemp("file") / "run.archon"
    exported = terminal.archon("export", finished, "-o", str(file))
    assert exported.code == 0, exported.err
    assert alike(shown["archon export last -o run.archon"].shown, exported.out.replace(str(file), "run.archon"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and os.listdir(file.parent) == ["run.archon"]
    return file


def alike(page: str, printed: str) -> bool:
    """Whether an output is the one of the page, but for counts that follow from the text of the offline model."""
    kept = [
        re.sub(r"\d[\d,.]*(?= (kB|events?|steps?|inputs?|recorded|versions?)\b)", "N", text) for text in (page, printed)
    ]
    kept = [re.sub(r", sealed by key .*: intact|: the links match.*", "", each) for each in kept]
    return matches(kept[0], kept[1])


def test_a_replay_prints_what_the_page_shows(run_file: Path, shown: dict[str, Step], tmp_path: Path) -> None:
    elsewhere = Terminal(tmp_path / "no-mesh", COLUMNS="80")
    replayed = elsewhere.archon("replay", str(run_file))
    assert (replayed.code, replayed.err) == (0, ""), replayed
    assert alike(shown["archon replay run.archon"].shown, replayed.out), replayed.out
    assert all(len(line) <= 140 for line in replayed.out.splitlines())
    decided = elsewhere.archon("replay", str(run_file), "--decide", "--json")
    document = json.loads(decided.out)
    assert decided.code == 0 and document["decided"]["same"] and document["run_again"] is None


def test_a_live_role_of_the_mesh_answers(terminal: Terminal, run_file: Path, shown: dict[str, Step]) -> None:
    replayed = terminal.archon("replay", str(run_file), "--live", "designer")
    assert replayed.code == 0, replayed
    assert alike(shown["archon replay run.archon --live designer"].shown, replayed.out), replayed.out


def test_a_served_file_answers_for_its_role(run_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "designer.yaml"
    file.write_text("name: designer\nsystem_prompt: Greet the user.\nrole:\n  depends_on: [requirements]\n")
    replayed = Terminal(tmp_path / "no-mesh").archon("replay", str(run_file), "--serve", str(file), "--json")
    assert replayed.code == 0, replayed
    ledger = {row["role"]: (row["live"], row["from_file"]) for row in json.loads(replayed.out)["run_again"]["ledger"]}
    assert ledger == {"requirements": (0, 1), "designer": (1, 0), "implementer": (0, 1)}


def test_bad_input_ends_with_one_sentence(terminal: Terminal, run_file: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.archon"
    cut.write_bytes(run_file.read_bytes()[:-100])
    text = tmp_path / "text.archon"
    text.write_text("hello")
    for arguments, code, said in (
        (("replay", str(cut)), 1, "is cut off after"),
        (("replay", str(text)), 1, "is no run file: `archon export` writes one"),
        (("replay", str(tmp_path / "none")), 4, "No such file"),
        (("replay", str(run_file), "--decide", "--strict"), 2, "--decide runs nothing"),
        (("replay", str(run_file), "--live", "painter"), 4, "no agent of the mesh serves the role painter"),
        (("export", "f" * 32), 4, "f" * 32),
        (("export", "last", "-o", str(tmp_path / "no" / "run.archon")), 1, "cannot write"),
    ):
        result = terminal.archon(*arguments)
        assert (result.code, said in result.err) == (code, True), (arguments, result)
    assert not list(tmp_path.glob(".*part"))
