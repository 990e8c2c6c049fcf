"""A scenario catches each of the faults that are put into the sources of the SDKs (`make mutants-sdks` tries all)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.conformance import mutants
from tests.conformance.mutate import Verdict, try_all
from tests.conformance.sdks import SDKS, Sdk, sdk
from tests.conformance.subjects import FOLDER

SAMPLE: Final = ("heartbeat-echoed-wrongly", "result-sent-twice", "adoption-sends-everything-again")
"""The mutants of each SDK that a test tries: of the session, of the attempt, and of the sequences."""

LEAST: Final = 20


@pytest.mark.parametrize("language", [each.name for each in SDKS])
def test_each_mutant_edits_the_sources_as_they_are(language: str) -> None:
    table = mutants.load(language)
    assert mutants.faults(table, sdk(language).build.source) == []
    assert len(table) >= LEAST
    assert {*SAMPLE} <= {mutant.name for mutant in table}


def test_there_is_a_table_for_each_sdk() -> None:
    assert mutants.languages() == sorted(each.name for each in SDKS)


def test_a_row_that_cannot_be_tried_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.go").write_text("one two two")
    rows = [
        mutants.Mutant("missing", "b.go", "one", "x", "results/text"),
        mutants.Mutant("twice", "a.go", "two", "x", "results/text"),
        mutants.Mutant("same", "a.go", "one", "one", "results/text"),
        mutants.Mutant("unheld", "a.go", "one", "x", "results/nothing"),
        mutants.Mutant("good", "a.go", "one", "y", "results/text"),
        mutants.Mutant("again", "a.go", "one", "y", "results/text"),
    ]
    named = {fault.partition(":")[0] for fault in mutants.faults(rows, tmp_path)}
    assert named == {"missing", "twice", "same", "unheld", "good", "again"}


def test_a_mutant_is_held_to_a_case_that_its_scenario_has() -> None:
    assert mutants.place("results/text") == ("dialled", "plain")
    assert mutants.place("attaching/one-spare")[0] == "attached"


def test_the_page_says_how_many_there_are() -> None:
    page = (FOLDER.parents[1] / "docs" / "testing" / "mutants.md").read_text()
    for name, language in (("Go", "go"), ("TypeScript", "typescript"), ("Java", "java")):
        assert f"| {name} | {len(mutants.load(language))} |" in page


@pytest.mark.search
@pytest.mark.parametrize("language", SDKS, ids=lambda each: each.name)
async def test_a_sample_of_mutants_is_caught(language: Sdk) -> None:
    language.build.require()
    chosen = [mutant for mutant in mutants.load(language.name) if mutant.name in SAMPLE]
    tried = await try_all(language, chosen)
    assert [str(each) for each in tried if each.verdict is not Verdict.CAUGHT] == []
