"""Placement by records: which instances get the tasks of a role, over thousands of placements."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Sequence

import pytest

from archon.registry import Registration
from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions import Limits, Session
from archon_services.orchestrator.sessions.record_factors import MAX_SESSIONS, ROUNDS, RecordFactors
from archon_services.orchestrator.sessions.role_index import MAX_CANDIDATES, MAX_COMPARED, SHARE, RoleIndex
from archon_services.orchestrator.track_records.observations import Observation
from archon_services.orchestrator.track_records.records import TrackRecords
from tests.unit.services.orchestrator.sessions.inbox import Inbox

ROLE = Requirement("cook")
PLACEMENTS = 3_000


def session(instance_id: str, slots: int = 4, role: str = "cook") -> Session:
    made = Session(
        orchestrator_id="o",
        instance=Registration(role, instance_id=instance_id),
        inbox=Inbox(),
        room_changed=lambda session: None,
        unneeded=lambda instance_id: None,
        resolve=lambda role, capability: (),
        may_send=lambda: True,
        limits=Limits(),
    )
    made.connected, made._window = True, slots
    return made


def index_of(*factors: float, slots: int = 4) -> tuple[RoleIndex, list[Session]]:
    index, sessions = RoleIndex(), []
    for number, factor in enumerate(factors):
        made = session(f"i{number:02}", slots)
        made.factor = factor
        index.add(made)
        sessions.append(made)
    index.factors_changed("cook")
    return index, sessions


def placed(index: RoleIndex, running: int, placements: int = PLACEMENTS) -> Counter[str]:
    """Places tasks, of which so many run at a time. Returns how many each instance got."""
    counts: Counter[str] = Counter()
    busy: deque[Session] = deque()
    for _ in range(placements):
        if len(busy) > running:
            busy.popleft().reserved -= 1
        found = index.choose(ROLE)
        assert found is not None
        found.session.reserved += 1
        busy.append(found.session)
        counts[found.session.instance_id] += 1
    return counts


@pytest.mark.parametrize("running", [0, 2, 5, 11])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_equal_records_place_as_no_records_do(running: int, factor: float) -> None:
    plain, _ = index_of(*[1.0] * 4)
    equal, _ = index_of(*[factor] * 4)
    dice, other = random.Random(7), random.Random(7)
    for index, numbers in ((plain, dice), (equal, other)):
        index.sessions_of("cook")[0].reserved = numbers.randint(0, 3)
    assert placed(plain, running) == placed(equal, running)
    found, same = plain.choose(ROLE), equal.choose(ROLE)
    assert found is not None and same is not None and found.choice == same.choice


@pytest.mark.parametrize("running", [0, 3, 10])
def test_a_good_record_gets_more_and_a_bad_one_does_not_starve(running: int) -> None:
    index, _ = index_of(0.5, 1.0, 1.0, 2.0)
    counts = placed(index, running)
    assert counts["i00"] == max(counts.values())
    assert counts["i03"] == min(counts.values())
    least = PLACEMENTS / (SHARE * 4)
    assert all(counts[f"i{number:02}"] >= least - 1 for number in range(4)), counts


@pytest.mark.parametrize("instances", [2, 17, 40])
def test_each_of_many_instances_gets_a_tenth_of_an_equal_share(instances: int) -> None:
    index, sessions = index_of(*[0.5] * (instances - 1), 2.0)
    counts = placed(index, 0, 20_000)
    assert min(counts[made.instance_id] for made in sessions) >= 20_000 / (SHARE * instances) - 1


def test_the_load_outweighs_a_record_in_the_end() -> None:
    index, sessions = index_of(0.5, 2.0, slots=8)
    order = []
    for _ in range(8):
        found = index.choose(ROLE)
        assert found is not None
        found.session.reserved += 1
        order.append(sessions.index(found.session))
    assert order[0] == 0 and order.count(1) >= 1, "the records differ as much as they can, and both get tasks"


def test_a_choice_by_record_shows_the_instances_compared() -> None:
    index, sessions = index_of(2.0, *[1.0] * 8)
    found = index.choose(ROLE)
    assert found is not None and found.session is sessions[1]
    choice = found.choice
    assert choice is not None
    assert (choice.reason, choice.compared, len(choice.candidates)) == ("record", 9, MAX_CANDIDATES)
    assert choice.candidates[0].instance_id == "i01"
    sessions[1].reserved = 1
    sessions[0].factor = 1.0
    sessions[3].factor = 1.19
    found = index.choose(ROLE)
    assert found is not None and found.choice is not None
    assert (found.session, found.choice.reason, found.choice.candidates) == (sessions[0], "least_loaded", ())


def test_reasons_of_placements_without_records() -> None:
    index, sessions = index_of(1.0, 1.0)
    assert [found and found.choice and found.choice.reason for found in (
        index.choose(ROLE), index.choose(ROLE, ["i00"]), index.choose(ROLE, prefer="i01"), index.choose(ROLE, ["i01"])
    )] == ["least_loaded", "apart", "preferred", "apart"]  # fmt: skip
    sessions[0].connected = False
    found = index.choose(ROLE)
    assert found is not None and found.choice is None, "there was no other"


def test_many_sessions_are_compared_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = index_of(*[1.0] * 100, 2.0)
    found = index.choose(ROLE)
    assert found is not None and found.choice is not None and found.choice.compared == MAX_COMPARED


class Kitchen:
    """Instances with records, in which tasks end at once."""

    def __init__(self, instances: Sequence[str]) -> None:
        self.records = TrackRecords(lambda: 1e9)
        self.index = RoleIndex()
        self.factors = RecordFactors(self.index)
        self.fails: set[str] = set()
        for instance_id in instances:
            self.index.add(session(instance_id))

    def serve(self, tasks: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for number in range(tasks):
            found = self.index.choose(ROLE)
            assert found is not None
            instance_id = found.session.instance_id
            failed = instance_id in self.fails
            self.records._pending.append(
                ("default", 1e9, Observation("cook", instance_id, not failed, failed, 0.0 if failed else 1.0))
            )
            counts[instance_id] += 1
            if number % 20 == 0:
                self.factors.update(self.records)
        return counts


def test_an_instance_that_failed_recovers_once_it_works_again() -> None:
    kitchen = Kitchen(["a", "b"])
    kitchen.fails = {"a"}
    bad = kitchen.serve(2_000)
    assert 2_000 / (2 * SHARE) <= bad["a"] < bad["b"] / 5
    kitchen.fails = set()
    kitchen.serve(3_000)
    recovered = {made.instance_id: made.factor for made in kitchen.index.sessions_of("cook")}
    assert recovered["a"] < 2.0, recovered
    kitchen.fails = {"b"}
    assert kitchen.serve(4_000)["a"] > 2_000


def test_the_only_instance_of_a_role_has_no_factor() -> None:
    kitchen = Kitchen(["a"])
    kitchen.fails = {"a"}
    kitchen.serve(100)
    (only,) = kitchen.index.sessions_of("cook")
    assert only.factor == 1.0 and only.record is not None
    found = kitchen.index.choose(ROLE)
    assert found is not None and found.choice is None


def test_factors_are_computed_for_some_sessions_at_a_time() -> None:
    records, index = TrackRecords(lambda: 1e9), RoleIndex()
    factors = RecordFactors(index)
    roles = [f"role{number}" for number in range(4)]
    for role in roles:
        for number in range(MAX_SESSIONS // 2):
            index.add(session(f"{role}-{number}", role=role))
            if not number % 2:
                records._pending += [("default", 1e9, Observation(role, f"{role}-{number}", failed=True))] * 5
            else:
                records._pending += [("default", 1e9, Observation(role, f"{role}-{number}", True, seconds=1.0))] * 5
    factors.update(records)
    computed = [role for role in roles if index.sessions_of(role)[0].factor != 1.0]
    assert computed == roles[:2]
    factors.update(records)
    assert all(index.sessions_of(role)[0].factor > 1.0 for role in roles)
    for made in index.sessions_of("role3"):
        made.factor = 1.0
    for _ in range(ROUNDS + 2):
        factors.update(records)
    assert index.sessions_of("role3")[0].factor > 1.0, "all are computed now and then"
