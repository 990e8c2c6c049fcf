"""The order in which ready runs of several tenants get their turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from archon_services.orchestrator.runs.ready_runs import LATELY, SHARE, ReadyRuns


@dataclass
class Run:
    tenant: str
    number: int = 0


def filled(**runs: int) -> ReadyRuns[Run]:
    ready = ReadyRuns[Run](lambda tenant: 3.0 if tenant == "heavy" else 1.0)
    for tenant, number in runs.items():
        for each in range(number):
            ready.add(Run(tenant, each))
    return ready


def test_runs_of_one_tenant_fill_a_turn_in_their_order() -> None:
    ready = filled(a=600)
    assert [run.number for run in ready.take(256, 0.0)] == list(range(256))
    assert [run.number for run in ready.take(256, 0.1)] == list(range(256, 512))
    assert len(ready) == 88
    assert len(ready.take(256, 0.2)) == 88
    assert ready.take(256, 0.3) == []


def test_the_first_run_of_a_tenant_is_in_the_next_turn_however_many_another_has() -> None:
    ready = filled(a=5_000)
    ready.take(256, 0.0)
    ready.add(Run("b"))
    turn = ready.take(256, 0.1)
    assert Counter(run.tenant for run in turn) == {"a": SHARE, "b": 1}
    assert len(ready) == 5_000 - 256 - SHARE


def test_turns_stay_short_while_another_tenant_may_come_back() -> None:
    ready = filled(a=5_000)
    ready.take(256, 0.0)
    ready.add(Run("b"))
    ready.take(256, 0.1)
    assert len(ready.take(256, 0.1 + LATELY / 2)) == SHARE
    assert len(ready.take(256, 0.1 + LATELY * 2)) == 256


def test_shares_follow_the_weights() -> None:
    turn = filled(a=500, heavy=500).take(256, 0.0)
    assert Counter(run.tenant for run in turn) == {"a": SHARE, "heavy": 3 * SHARE}


def test_tenants_that_no_turn_had_room_for_come_first_in_the_next_one() -> None:
    ready = filled(**{f"t{number}": 100 for number in range(20)})
    turns = [ready.take(256, number / 100) for number in range(5)]
    served = Counter(run.tenant for turn in turns for run in turn)
    assert len(served) == 20
    assert max(served.values()) - min(served.values()) <= SHARE
