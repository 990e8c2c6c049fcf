"""Outcomes are learned once, by one replica; what waits for a person waits; people go back."""

from __future__ import annotations

import asyncio
import json

import pytest

from archon.api.common.v1 import common_pb2, failure_pb2
from archon.api.orchestrator.v1 import run_pb2
from archon.errors import LearnedVersionDecided, UnknownLearnedVersion
from archon.learning import CHOICES_KEY
from archon_services.orchestrator.journal import LearnedRow, MemoryJournal, RatingRow
from archon_services.orchestrator.journal.rows import RecordRow
from archon_services.orchestrator.learning import learner as learner_module
from archon_services.orchestrator.learning.learner import Learner
from archon_services.orchestrator.learning.versions import Origin, decode_evidence
from archon_services.orchestrator.learning.weights import Subject
from tests.fixtures.journal import commit, new_run, step_of

NOW = 10_000.0
TENANT = "default"


def events_of(run_id: str, variant: str, *, good: bool) -> list[bytes]:
    """The events of a run whose only task used a prompt variant, and completed or failed."""
    metadata = {CHOICES_KEY: json.dumps({"version": 0, "roles": {"writer": {"variant": variant}}})}
    submitted = run_pb2.RunEvent(run_id=run_id, seq=1)
    submitted.submitted.strategy = run_pb2.STRATEGY_PIPELINE
    submitted.submitted.roles.append("writer")
    submitted.submitted.goal.add(text="x")
    submitted.submitted.metadata.update(metadata)
    created = run_pb2.RunEvent(run_id=run_id, seq=2)
    created.task.task_id = f"{run_id}-t"
    created.task_state.role, created.task_state.state = "writer", common_pb2.TASK_STATE_SUBMITTED
    dispatched = run_pb2.RunEvent(run_id=run_id, seq=3)
    dispatched.task.task_id, dispatched.task.attempt = f"{run_id}-t", 1
    dispatched.dispatched.role, dispatched.dispatched.instance_id = "writer", "i1"
    result = run_pb2.RunEvent(run_id=run_id, seq=4)
    result.task.task_id, result.task.attempt = f"{run_id}-t", 1
    result.result.role = "writer"
    if good:
        result.result.state = common_pb2.TASK_STATE_COMPLETED
    else:
        result.result.state = common_pb2.TASK_STATE_FAILED
        failure = result.result.failure
        failure.failure_class, failure.kind = failure_pb2.FAILURE_CLASS_MODEL, "model.format"
    return [event.SerializeToString() for event in (submitted, created, dispatched, result)]


async def end(
    journal: MemoryJournal,
    run_id: str,
    variant: str,
    *,
    good: bool,
    tool: str = "",
    tenant: str = TENANT,
    time: float = NOW,
) -> None:
    state = int(common_pb2.TASK_STATE_COMPLETED if good else common_pb2.TASK_STATE_FAILED)
    records = []
    if tool:
        record = run_pb2.RunRecord(role="writer", kind="tool", target=tool)
        record.response_json = json.dumps({"status": "success" if good else "error"})
        records = [RecordRow("writer", record.SerializeToString())]
    step = step_of(
        run_id, 0, events_of(run_id, variant, good=good),
        time=time, state=state, ended=True, state_changed=True, new=new_run(run_id, tenant=tenant), records=records,
    )  # fmt: skip
    await commit(journal, step)


async def runs(journal: MemoryJournal, count: int, first: int = 0) -> None:
    """Runs in which the prompt `brief` and the tool `clock` do well, `default` and `search` fail."""
    for number in range(first, first + count):
        await end(journal, f"g{number}", "brief", good=True, tool="clock")
        await end(journal, f"b{number}", "default", good=False, tool="search")


def learner(journal: MemoryJournal, approve_above: float = 2.0) -> Learner:
    return Learner(journal, lambda: NOW + 1.0, approve_above=approve_above)


def brief(name: str = "brief") -> Subject:
    return Subject("variant", "writer", name)


async def test_outcomes_of_tasks_tools_and_variants_move_weights() -> None:
    journal = MemoryJournal()
    await runs(journal, 10)
    one = learner(journal)
    assert await one.look() == 20
    [version], in_use = await one.page(TENANT, 0, 10)
    assert (version.number, version.origin, in_use) == (1, Origin.LEARNED, 1)
    assert version.weights[brief()] > 1 > version.weights[brief("default")]
    assert (
        version.weights[Subject("tool", "writer", "search")] < 1 < version.weights[Subject("tool", "writer", "clock")]
    )
    assert version.evidence[brief()].count == 10
    assert Subject("role", "writer") not in version.weights, "it is alone"
    choices = one.choices(TENANT, "r", {"writer": ["brief", "default"]}, [])
    assert choices["version"] == 1
    assert choices["roles"]["writer"]["weights"] == {"brief": 1.25, "default": 0.75}


async def test_two_replicas_never_both_apply_one_outcome() -> None:
    journal = MemoryJournal(shared=True)
    one, two = learner(journal), learner(journal)
    for first in range(0, 30, 10):
        await runs(journal, 10, first)
        await asyncio.gather(one.look(), two.look(), one.look(), two.look())
    await one.look()
    versions, _ = await two.page(TENANT, 0, 10)
    evidence = versions[0].evidence
    assert evidence[brief()].count <= 30
    await one.look()
    stored = await journal.learned_evidence(TENANT)
    assert decode_evidence(stored.data)[brief()].count == pytest.approx(30)


async def test_a_rating_counts_once_and_a_replaced_one_no_more() -> None:
    journal = MemoryJournal()
    await runs(journal, 1)
    await journal.rate("g0", RatingRow("ann", 1, "", NOW))
    one = learner(journal)
    assert await one.look() == 3
    await journal.rate("g0", RatingRow("ann", 5, "", NOW + 0.5))
    await journal.rate("g0", RatingRow("bob", 5, "", NOW + 0.5))
    assert await one.look() == 1, "bob's"
    evidence = (await journal.learned_evidence(TENANT)).data
    assert decode_evidence(evidence)[brief()].count == pytest.approx(7)


async def test_a_large_change_waits_and_outcomes_wait_too() -> None:
    journal = MemoryJournal()
    one = learner(journal, approve_above=0.3)
    await runs(journal, 10)
    await one.look()
    await runs(journal, 10, 10)
    await one.look()
    versions, in_use = await one.page(TENANT, 0, 10)
    assert [(each.number, each.origin) for each in versions] == [(2, Origin.PROPOSED), (1, Origin.LEARNED)]
    assert in_use == 1
    await runs(journal, 1, 20)
    assert await one.look() == 0
    with pytest.raises(LearnedVersionDecided):
        await one.decide(TENANT, 1, "ann", "", approve=True)
    with pytest.raises(UnknownLearnedVersion):
        await one.decide(TENANT, 7, "ann", "", approve=True)
    approved = await one.decide(TENANT, 2, "ann", "fine", approve=True)
    assert (approved.number, approved.origin, approved.weights) == (3, Origin.APPROVED, versions[0].weights)
    assert one.weight(TENANT, "writer", "i1") == 1.0
    assert await one.look() == 2, "what has waited is learned now"


async def test_a_tenant_that_waits_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "BATCH", 10)
    journal = MemoryJournal()
    one = learner(journal, approve_above=0.1)
    await runs(journal, 5)
    assert await one.look() == 10
    assert (await one.page(TENANT, 0, 10))[0][0].origin is Origin.PROPOSED
    await runs(journal, 10, 5)
    for number in range(4):
        await end(journal, f"z{number}", "brief", good=True, tenant="acme")
    assert [await one.look(), await one.look()] == [4, 0]
    await one.decide(TENANT, 1, "ann", "", approve=True)
    assert await one.look() == 10, "what has waited is learned now"


async def test_many_ends_beside_later_ratings_are_all_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner_module, "BATCH", 4)
    monkeypatch.setattr(learner_module, "OVERLAP", 0.0)
    journal = MemoryJournal()
    for number in range(10):
        await end(journal, f"g{number}", "brief", good=True, time=NOW - 1_000.0 + number)
    await journal.rate("g0", RatingRow("ann", 5, "", NOW))
    one = learner(journal)
    assert [await one.look() for _ in range(4)] == [5, 4, 2, 0]


async def test_a_tenant_whose_versions_are_damaged_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    assert await journal.learn("damaged", 0, b"", version=LearnedRow("damaged", 1, NOW, b"\xff"))
    await end(journal, "x", "brief", good=True, tenant="damaged")
    await runs(journal, 10)
    one, two = learner(journal), learner(journal)
    assert await one.look() == 20
    await two.refresh()
    assert two.choices(TENANT, "r", {"writer": ["brief", "default"]}, [])["version"] == 1
    assert "learned weights of tenant damaged" in caplog.text


async def test_after_a_revert_the_same_outcomes_do_not_count_again() -> None:
    journal = MemoryJournal()
    one = learner(journal)
    await runs(journal, 10)
    await one.look()
    back = await one.revert(TENANT, 0, "ann", "too early")
    assert (back.number, back.weights, back.evidence) == (2, {}, {})
    assert await one.look() == 0
    versions, in_use = await one.page(TENANT, 0, 10)
    assert (len(versions), in_use) == (2, 2)
    again = await one.revert(TENANT, 1, "ann", "")
    assert again.weights == versions[1].weights
    with pytest.raises(UnknownLearnedVersion):
        await one.revert(TENANT, 9, "ann", "")


async def test_of_two_decisions_at_once_one_counts() -> None:
    journal = MemoryJournal(shared=True)
    one, two = learner(journal, 0.1), learner(journal, 0.1)
    await runs(journal, 10)
    await one.look()
    results = await asyncio.gather(
        one.decide(TENANT, 1, "ann", "", approve=True),
        two.decide(TENANT, 1, "bob", "", approve=False),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["LearnedVersionDecided", "Version"]


async def test_another_replica_reads_the_weights() -> None:
    journal = MemoryJournal(shared=True)
    one, two = learner(journal), learner(journal)
    await runs(journal, 10)
    await one.look()
    assert two.choices(TENANT, "r", {"writer": ["brief", "default"]}, [])["version"] == 0
    await two.refresh()
    assert two.choices(TENANT, "r", {"writer": ["brief", "default"]}, []) == one.choices(
        TENANT, "r", {"writer": ["brief", "default"]}, []
    )


async def test_tenants_learn_apart() -> None:
    journal = MemoryJournal()
    one = learner(journal)
    await runs(journal, 10)
    await one.look()
    assert await one.page("acme", 0, 10) == ([], 0)
    assert one.choices("acme", "r", {"writer": ["brief", "default"]}, [])["roles"]["writer"]["weights"] == {
        "brief": 1.0,
        "default": 1.0,
    }


async def test_a_run_that_cannot_be_read_does_not_stop_the_others() -> None:
    journal = MemoryJournal()
    await commit(journal, step_of("bad", 0, [b"\xff"], time=NOW, ended=True, state_changed=True, new=new_run("bad")))
    await runs(journal, 3)
    one = learner(journal)
    assert await one.look() == 7
    assert await one.look() == 0
