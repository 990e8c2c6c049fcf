"""Dealing and applying faults, on targets that only record the calls."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.chaos.faults import ALL, HOW, KINDS, QUORUM, WAYS, Blow, Dealer, Fault, strike
from tests.chaos.targets import Target
from tests.fixtures.valve import Valve

REPLICAS = {"memory": 1, "PostgreSQL": 1, "etcd member": 3}


class Noted(Target):
    """Records its calls."""

    def __init__(self, kind: str, number: int) -> None:
        super().__init__(kind, f"{kind} {number}", [Valve(), Valve()])
        self.notes: list[str] = []
        self._running = True

    async def start(self) -> None:
        self.notes.append("start")
        self._running = True

    async def stop(self) -> None:
        self.notes.append("stop")
        self._running = False

    async def kill(self) -> None:
        self.notes.append("kill")
        self._running = False

    def freeze(self) -> None:
        self.notes.append("freeze")

    def thaw(self) -> None:
        self.notes.append("thaw")

    @property
    def running(self) -> bool:
        return self._running


@pytest.fixture
def targets() -> list[Noted]:
    return [Noted(kind, number) for kind in KINDS for number in range(REPLICAS.get(kind, 2))]


@pytest.mark.parametrize("seed", range(20))
def test_200_rounds_strike_each_fault_at_least_eight_times(targets: list[Noted], seed: int) -> None:
    dealer = Dealer(random.Random(seed), targets)
    struck = Counter(blow.fault for _ in range(200) for blow in dealer.round())
    assert set(struck) == set(ALL)
    assert min(struck.values()) >= 8


def test_faults_of_a_round_hit_neither_one_target_nor_a_quorum(targets: list[Noted]) -> None:
    dealer = Dealer(random.Random(1), targets)
    overlapping = 0
    for _ in range(2_000):
        blows = dealer.round()
        struck = [target for blow in blows for target in blow.targets]
        overlapping += len(blows) == 2
        assert len(set(struck)) == len(struck)
        members = sum(target.kind == "etcd member" for target in struck)
        assert members <= (2 if any(blow.fault.how == QUORUM for blow in blows) else 1)
        assert all(blow.after <= blows[0].lasts for blow in blows), "they overlap"
    assert overlapping > 1_500


def test_a_seed_deals_the_same_faults_again(targets: list[Noted]) -> None:
    first, second = (Dealer(random.Random(3), targets) for _ in range(2))
    assert [first.round() for _ in range(50)] == [second.round() for _ in range(50)]


@pytest.mark.parametrize(
    ("how", "notes"),
    [
        ("kill", ["kill", "start"]),
        ("freeze", ["freeze", "thaw"]),
        ("restart", ["stop", "start"]),
        *((way, []) for way in WAYS),
    ],
)
async def test_a_fault_is_healed(how: str, notes: list[str]) -> None:
    target = Noted("agent", 1)
    await strike(Blow(Fault(how, "agent"), (target,), 0.0, 0.0), random.Random(1))
    assert how in HOW
    assert target.notes == notes
    assert not target.died
    assert all(valve.is_open for valve in target.valves)


async def test_a_process_that_ends_without_a_fault_has_died() -> None:
    target = Noted("agent", 1)
    await target.kill()
    assert target.died
