"""Tasks that wait for a free slot are woken in order, and runs take turns."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from archon_mesh.engine.types import Requirement
from archon_services.orchestrator.sessions.waiting_list import WaitingList

PLAIN, ABLE, OTHER = Requirement("a"), Requirement("a", "able"), Requirement("b")


class Woken:
    """A waiting list, and the names of the tasks that it has woken."""

    def __init__(self) -> None:
        self.waiting, self.names = WaitingList(), list[str]()

    def add(self, name: str, requirement: Requirement = PLAIN) -> Callable[[], None]:
        """Adds a task of the run that is named before the dot."""
        return self.waiting.add(requirement, name.partition(".")[0], lambda: self.names.append(name))

    def wake(self, slots: int, *fitting: Requirement) -> list[str]:
        """Returns the tasks that are woken for so many slots."""
        self.names.clear()
        self.waiting.wake("a", lambda want: want in (fitting or (PLAIN, ABLE)), slots)
        return list(self.names)


def test_as_many_are_woken_as_slots_are_free_first_come_first() -> None:
    woken = Woken()
    for name in ("r.1", "r.2", "r.3"):
        woken.add(name)
    assert woken.wake(0) == woken.wake(-1) == []
    assert woken.wake(2) == ["r.1", "r.2"]
    assert woken.wake(5) == ["r.3"]
    assert woken.waiting.requirements("a") == []
    assert woken.waiting.sizes() == {}


def test_requirements_are_listed_per_role() -> None:
    woken = Woken()
    cancels = [woken.add("r.1", requirement) for requirement in (PLAIN, ABLE, OTHER)]
    assert woken.waiting.requirements("a") == [PLAIN, ABLE]
    assert woken.waiting.requirements("b") == [OTHER]
    assert woken.waiting.sizes() == {"a": 2, "b": 1}
    cancels[0]()
    cancels[0]()
    assert woken.waiting.requirements("a") == [ABLE]
    cancels[1]()
    assert woken.waiting.requirements("a") == []


def test_a_cancelled_callback_is_not_called() -> None:
    woken = Woken()
    cancel = woken.add("r.1")
    woken.add("r.2")
    cancel()
    assert woken.wake(5) == ["r.2"]
    cancel()


def test_a_run_with_one_task_waits_for_one_of_each_other_run_at_most() -> None:
    woken = Woken()
    for number in range(1_000):
        woken.add(f"greedy.{number}")
    assert woken.wake(2) == ["greedy.0", "greedy.1"]
    woken.add("honest.0")
    woken.add("other.0")
    assert woken.wake(4) == ["honest.0", "other.0", "greedy.2", "greedy.3"]


def test_a_run_that_waits_with_another_requirement_has_its_turn_too() -> None:
    woken = Woken()
    for number in range(100):
        woken.add(f"greedy.{number}")
        woken.add(f"greedy.able{number}", ABLE)
    woken.add("honest.0", ABLE)
    assert woken.wake(3) == ["greedy.0", "honest.0", "greedy.1"]


def test_a_run_that_had_its_turn_with_another_requirement_is_before_one_that_had_a_later_turn() -> None:
    woken = Woken()
    woken.add("first.able", ABLE)
    woken.add("second.0", PLAIN)
    woken.add("first.plain", PLAIN)
    assert woken.wake(2) == ["first.able", "second.0"]
    woken.add("second.1", PLAIN)
    assert woken.wake(1) == ["first.plain"]


def test_tasks_that_are_added_and_removed_leave_nothing_behind() -> None:
    woken = Woken()
    woken.add("kept.0")
    for number in range(1_000):
        woken.add(f"{number}.0")()
    assert len(woken.waiting._roles["a"].queues[PLAIN]._order) <= 66
    assert woken.wake(5) == ["kept.0"]


def test_a_run_that_comes_back_is_behind_those_that_wait() -> None:
    woken = Woken()
    woken.add("a.0")
    woken.add("b.0")
    assert woken.wake(1) == ["a.0"]
    woken.add("a.1")
    assert woken.wake(2) == ["b.0", "a.1"]


def test_only_tasks_whose_requirement_fits_are_woken() -> None:
    woken = Woken()
    woken.add("r.plain")
    woken.add("s.able", ABLE)
    assert woken.wake(5, ABLE) == ["s.able"]
    assert woken.wake(5, ABLE) == []
    assert woken.wake(5, PLAIN) == ["r.plain"]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from((PLAIN, ABLE)), st.integers(0, 2), st.integers(0, 40)), max_size=60
    )
)
def test_every_task_is_woken_once_and_no_run_is_passed_over_twice(
    actions: list[tuple[int, Requirement, int, int]],
) -> None:
    """No run is woken for a second time while another run has waited from before the first."""
    woken, waiting, cancels = Woken(), dict[str, int](), dict[str, Callable[[], None]]()
    since: dict[str, int] = {}
    last: dict[str, int] = {}
    clock = 0
    for number, (run, requirement, slots, cancelled) in enumerate(actions):
        name = f"{run}.{number}"
        cancels[name] = woken.add(name, requirement)
        waiting[name] = number
        since.setdefault(str(run), clock)
        if f"{cancelled % 4}.{cancelled}" in waiting:
            gone = f"{cancelled % 4}.{cancelled}"
            cancels[gone]()
            del waiting[gone]
        for each in woken.wake(slots):
            clock += 1
            run_id = each.partition(".")[0]
            others = {name.partition(".")[0] for name in waiting} - {run_id}
            assert not any(
                since[other] < last.get(run_id, -1) and last.get(other, -1) < last[run_id] for other in others
            )
            last[run_id] = clock
            del waiting[each]
        for run_id in set(since) - {name.partition(".")[0] for name in waiting}:
            del since[run_id]
    assert sorted(woken.wake(1_000)) == sorted(waiting)
    assert woken.waiting.sizes() == {}
