"""Rules of retention: the file, which rule decides, samples, and a sweep with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from archon.api.common.v1 import common_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import InvalidArgument, NotFound
from archon_services.orchestrator.journal import MarkRow, MemoryJournal
from archon_services.orchestrator.retention import Retention, load_retention, sweep
from archon_services.orchestrator.retention.rules import (
    FOREVER,
    DetailsRule,
    RetentionRules,
    RunFacts,
    default_rules,
    is_sampled,
)
from tests.fixtures.journal import commit, new_run, step_of
from tests.unit.services.orchestrator.retention.clock import Clock

DAY = 86_400.0
COMPLETED, FAILED = int(common_pb2.TASK_STATE_COMPLETED), int(common_pb2.TASK_STATE_FAILED)

FILE = """
details:
  - {keep: forever, marked: true}
  - {keep: 90d, states: [failed]}
  - {keep: 12h, tenants: ["acme-*"]}
  - {keep: 30d, labels: {team: "search-*"}}
  - {keep: 1800, sample: 0.5}
otherwise: 10min
"""


def rules_of(tmp_path: Path, text: str = FILE) -> RetentionRules:
    path = tmp_path / "retention.yaml"
    path.write_text(text)
    return load_retention(str(path), DAY, 30 * DAY)


def test_the_first_rule_that_holds_decides(tmp_path: Path) -> None:
    rules = rules_of(tmp_path)
    assert rules.summaries == FOREVER
    assert rules.shortest == 600.0
    assert rules.need_labels
    keep = rules.keep_details
    assert keep(RunFacts("r", "default", FAILED, marked=True)) == FOREVER
    assert keep(RunFacts("r", "acme-1", FAILED)) == 90 * DAY
    assert keep(RunFacts("r", "acme-1", COMPLETED)) == DAY / 2
    assert keep(RunFacts("r", "default", COMPLETED, labels={"team": "search-web"})) == 30 * DAY
    kept = [keep(RunFacts(f"r{number}", "default", COMPLETED)) for number in range(400)]
    assert set(kept) == {1_800.0, 600.0}
    assert 150 < kept.count(1_800.0) < 250


def test_without_a_file_the_settings_hold_for_all_runs() -> None:
    assert load_retention("", 60.0, 180.0) == default_rules(60.0, 180.0)


def test_a_rule_of_labels_does_not_hold_for_runs_without_the_key() -> None:
    rule = DetailsRule(DAY, labels={"team": "*"})
    assert rule.holds(RunFacts("r", "default", COMPLETED, labels={"team": ""}))
    assert not rule.holds(RunFacts("r", "default", COMPLETED, labels={"group": "search"}))


def test_a_sample_grows_without_losing_runs() -> None:
    runs = [f"run-{number}" for number in range(500)]
    small = {run for run in runs if is_sampled(run, 0.1)}
    assert small < {run for run in runs if is_sampled(run, 0.3)}
    assert 25 < len(small) < 80
    assert not any(is_sampled(run, 0.0) for run in runs)
    assert all(is_sampled(run, 1.0) for run in runs)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("details: [{states: [failed]}]", "keep"),
        ("details: [{keep: soon}]", "forever"),
        ("details: [{keep: -1}]", "above 0"),
        ("details: [{keep: 1d, states: [lost]}]", "states"),
        ("details: [{keep: 1d, sample: 2}]", "sample"),
        ("detials: []", "detials"),
        ("summaries: 1h\notherwise: 2h", "longer than summaries"),
        ("summaries: 1d\ndetails: [{keep: forever}]\notherwise: 1h", "longer than summaries"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=r"retention\.yaml") as caught:
        rules_of(tmp_path, text)
    assert words in str(caught.value)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load_retention(str(tmp_path / "none.yaml"), DAY, DAY)


async def end(journal: MemoryJournal, run_id: str, state: int, metadata: dict[str, str] | None = None) -> None:
    submitted = run_pb2.RunEvent(run_id=run_id, seq=1)
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.goal.add(text="x")
    submitted.submitted.metadata.update(metadata or {})
    last = run_pb2.RunEvent(run_id=run_id, seq=2)
    last.run_state.state = common_pb2.TaskState.ValueType(state)
    events = [submitted.SerializeToString(), last.SerializeToString()]
    await commit(journal, step_of(run_id, 0, events, state=state, ended=True, state_changed=True, new=new_run(run_id)))


async def compacted(journal: MemoryJournal) -> set[str]:
    return {row.run_id for row in await journal.runs(tenant="default") if row.compacted}


async def test_a_sweep_keeps_failed_marked_and_labelled_runs(tmp_path: Path) -> None:
    journal, clock = MemoryJournal(), Clock()
    for run_id, state, metadata in (
        ("ok", COMPLETED, {}),
        ("bad", FAILED, {}),
        ("dear", COMPLETED, {}),
        ("team", COMPLETED, {"team": "search-web"}),
    ):
        await end(journal, run_id, state, metadata)
    await journal.mark("dear", MarkRow("ann", "", 1.0))
    text = FILE.replace("  - {keep: 1800, sample: 0.5}\n", "")
    retention = Retention(journal, clock, rules=rules_of(tmp_path, text))
    clock.time += 700.0
    assert await retention.sweep() == (1, 0)
    assert await compacted(journal) == {"ok"}
    clock.time += 31 * DAY
    assert await retention.sweep() == (1, 0)
    assert await compacted(journal) == {"ok", "team"}
    clock.time += 365 * DAY
    assert await retention.sweep() == (1, 0)
    assert await compacted(journal) == {"ok", "team", "bad"}
    await journal.unmark("dear")
    assert await retention.sweep() == (1, 0)
    assert len(await journal.runs(tenant="default")) == 4, "summaries are kept"


async def test_a_sweep_is_bounded_and_the_next_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "PAGE", 2)
    monkeypatch.setattr(sweep, "MAX_KEPT", 4)
    journal, clock = MemoryJournal(), Clock()
    for number in range(7):
        await end(journal, f"bad{number}", FAILED)
    await end(journal, "ok", COMPLETED)  # after them, by its id
    rules = RetentionRules(60.0, FOREVER, [DetailsRule(FOREVER, frozenset({FAILED}))])
    retention = Retention(journal, clock, rules=rules)
    clock.time += 100.0
    assert await retention.sweep() == (0, 0)
    assert await retention.sweep() == (1, 0)
    assert await compacted(journal) == {"ok"}
