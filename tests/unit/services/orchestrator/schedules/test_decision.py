"""Decisions about a schedule: overlaps, times that passed, refusals, pauses and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from archon_services.orchestrator.schedules.codec import schedule_from_row, schedule_to_row
from archon_services.orchestrator.schedules.decision import Decision
from archon_services.orchestrator.schedules.schedule import (
    KEPT,
    MAX_RUNNING,
    CatchUp,
    FireState,
    Overlap,
    Owner,
    Policies,
    Schedule,
)
from archon_services.orchestrator.schedules.times import Every, Once, Times

START = 1_000_000.0
ALL = tuple(FireState)


def schedule(overlap: Overlap = Overlap.SKIP, catch_up: CatchUp = CatchUp.LATEST, **fields: object) -> Schedule:
    given = {"times": Times(Every(60)), "policies": Policies(overlap, catch_up), **fields}
    start = {"owner": Owner("ann"), "created": START, "updated": START, "cursor": START}
    return Schedule("default", "s", "uid", run=b"run", **{**start, **given})  # type: ignore[arg-type]


def passed(before: Schedule, seconds: float) -> Decision:
    """Lets time pass until so many seconds after START, and the stored form be read again."""
    decision = Decision(schedule_from_row(schedule_to_row(before, 1, None)), START + seconds)
    decision.advance()
    return decision


def running(before: Schedule, seconds: float) -> Decision:
    """As `passed`; the runs of the fires that start are there at once."""
    decision = passed(before, seconds)
    for fire in decision.fires_in(FireState.STARTING):
        decision.submitted(fire.fire_id, f"run-{fire.number}")
    decision.advance()
    return decision


def ended(before: Schedule, seconds: float, state: FireState = FireState.COMPLETED) -> Decision:
    """Ends the oldest run."""
    decision = Decision(before, START + seconds)
    decision.ended(decision.fires_in(FireState.RUNNING)[0].run_id, state)
    decision.advance()
    return decision


def states(decision: Decision) -> list[str]:
    return [fire.state.name for fire in decision.schedule.open_fires]


def test_a_fire_is_stored_with_its_request_before_its_run_exists() -> None:
    decision = passed(schedule(), 61)
    [fire] = decision.fires
    assert (fire.fire_id, fire.state, fire.request) == ("1970-01-12T13:47:00Z", FireState.STARTING, b"run")
    assert decision.schedule.run_request_id(fire.fire_id) == "schedule/uid/1970-01-12T13:47:00Z"
    assert not passed(decision.schedule, 62).changed, "the time is decided once"
    assert decision.due() == decision.now


@pytest.mark.parametrize(
    ("overlap", "fires", "open_then"),
    [
        (Overlap.SKIP, ["SKIPPED"], ["RUNNING"]),
        (Overlap.BUFFER_ONE, ["WAITING"], ["RUNNING", "WAITING"]),
        (Overlap.BUFFER_ALL, ["WAITING"], ["RUNNING", "WAITING"]),
        (Overlap.CANCEL_OTHER, ["WAITING"], ["RUNNING", "WAITING"]),
        (Overlap.ALLOW_ALL, ["STARTING"], ["RUNNING", "STARTING"]),
    ],
)
def test_a_fire_during_a_run_follows_the_policy(overlap: Overlap, fires: list[str], open_then: list[str]) -> None:
    later = passed(running(schedule(overlap), 61).schedule, 121)
    assert [fire.state.name for fire in later.fires] == fires
    assert states(later) == open_then
    assert later.to_cancel() == (["run-1"] if overlap is Overlap.CANCEL_OTHER else [])


def test_of_fires_that_wait_buffer_one_keeps_the_first_and_cancel_other_the_last() -> None:
    for overlap, kept in ((Overlap.BUFFER_ONE, 2), (Overlap.CANCEL_OTHER, 4), (Overlap.BUFFER_ALL, None)):
        state = running(schedule(overlap), 61).schedule
        for seconds in (121, 181, 241):
            state = passed(state, seconds).schedule
        waiting = [fire.number for fire in state.open_fires if fire.state is FireState.WAITING]
        assert waiting == ([kept] if kept else [2, 3, 4])
        assert state.skipped == (2 if kept else 0)
        after = ended(state, 250)
        assert [fire.number for fire in after.fires_in(FireState.STARTING)] == [kept or 2], "one at a time"


def test_runs_at_once_are_bounded_when_all_are_allowed() -> None:
    state = schedule(Overlap.ALLOW_ALL)
    for minute in range(1, MAX_RUNNING + 3):
        state = running(state, minute * 60 + 1).schedule
    assert len(state.open_fires) == MAX_RUNNING and state.skipped == 2


def test_a_week_without_a_replica_is_made_up_for_by_one_run() -> None:
    decision = passed(schedule(), 7 * 86_400)
    missed, fire = decision.fires
    assert (missed.state, missed.times, missed.times_more) == (FireState.MISSED, 999, True)
    assert (fire.state, decision.now - fire.planned < 60) == (FireState.STARTING, True)
    assert running(decision.schedule, 7 * 86_400 + 60).schedule.runs == 1, "and it goes on"


def test_a_replica_that_looks_some_seconds_later_misses_nothing() -> None:
    decision = passed(schedule(Overlap.ALLOW_ALL, times=Times(Every(1))), 3)
    assert [fire.state.name for fire in decision.fires] == ["STARTING"] * 3
    assert len(passed(schedule(Overlap.ALLOW_ALL, times=Times(Every(1))), 60).fires) == 1 + 6, "and those of an outage"


def test_all_times_within_the_window_are_made_up_for_in_order() -> None:
    policies = Policies(Overlap.BUFFER_ALL, CatchUp.ALL, window=300)
    decision = passed(schedule(policies=policies), 3_600)
    missed, *fires = decision.fires
    assert missed.state is FireState.MISSED and missed.times == 55
    assert [fire.state.name for fire in fires] == ["STARTING", *["WAITING"] * 4]
    assert [fire.planned for fire in fires] == sorted(fire.planned for fire in fires)


def test_late_times_are_skipped_if_the_policy_says_so() -> None:
    once = Times(Once(START + 100))
    assert passed(schedule(catch_up=CatchUp.SKIP, times=once), 159).fires[0].state is FireState.STARTING
    late = passed(schedule(catch_up=CatchUp.SKIP, times=once), 161)
    assert late.fires[0].state is FireState.MISSED
    assert late.schedule.ended == late.now


def test_a_clock_that_is_set_back_fires_nothing_twice() -> None:
    state = running(schedule(Overlap.ALLOW_ALL), 121).schedule
    assert not passed(state, 5).changed
    assert not passed(state, 119).changed
    assert [fire.planned for fire in passed(state, 181).fires] == [START + 140]


def test_a_refusal_is_tried_again_until_the_window_is_over() -> None:
    decision = passed(schedule(policies=Policies(window=100)), 61)
    waits, tries = [], 0
    while decision.fires_in(FireState.STARTING):
        [fire] = decision.fires_in(FireState.STARTING)
        tries, before = tries + 1, decision.now
        decision = Decision(decision.schedule, max(fire.due, decision.now))
        decision.refused(fire.fire_id, "quota", b"failure", final=False, delay=0.0)
        waits.append(decision.now - before)
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert decision.fires[-1].state is FireState.REFUSED and decision.schedule.refused == 1
    assert decision.fires[-1].failure == b"failure" and decision.fires[-1].request == b""


def test_a_refusal_that_is_final_is_not_tried_again_and_may_pause() -> None:
    decision = passed(schedule(policies=Policies(pause_on_failure=True)), 61)
    decision.refused(decision.fires[0].fire_id, "not allowed", b"", final=True)
    assert decision.fires[0].state is FireState.REFUSED
    assert decision.schedule.paused and "not allowed" in decision.schedule.pause_reason
    assert not passed(decision.schedule, 6_000).changed


def test_a_failed_run_pauses_and_what_waits_stays() -> None:
    state = schedule(policies=Policies(Overlap.BUFFER_ONE, pause_on_failure=True))
    state = passed(running(state, 61).schedule, 121).schedule
    failed = ended(state, 130, FireState.FAILED)
    assert failed.schedule.paused and failed.schedule.failed == 1
    assert states(failed) == ["WAITING"]
    resumed = Decision(replace(failed.schedule, paused=False, cursor=START + 600), START + 600)
    resumed.advance()
    assert states(resumed) == ["STARTING"]


def test_a_schedule_ends_after_its_runs_and_is_due_to_be_removed() -> None:
    state = schedule(times=Times(Every(60), max_runs=2))
    state = ended(running(state, 61).schedule, 70).schedule
    last = running(state, 121)
    assert last.schedule.runs == 2 and last.schedule.ended and last.due() is None
    over = ended(last.schedule, 130)
    assert over.due() == last.schedule.ended + KEPT
    assert not passed(over.schedule, 6_000).changed


def test_skipped_and_refused_fires_do_not_count_as_runs() -> None:
    state = running(schedule(times=Times(Every(60), max_runs=2)), 61).schedule
    state = passed(state, 121).schedule
    assert (state.skipped, state.runs, state.ended) == (1, 1, 0.0)


def test_a_time_that_a_caller_has_fired_is_not_fired_again() -> None:
    decision = Decision(schedule(Overlap.ALLOW_ALL), START + 41)
    fire = decision.trigger("1970-01-12T13:47:00Z", START + 20, Overlap.BUFFER_ALL, "ann")
    decision.advance()
    assert [(each.fire_id, each.manual) for each in decision.schedule.open_fires] == [(fire.fire_id, True)]


def test_a_trigger_fires_while_paused_and_jitter_delays() -> None:
    decision = Decision(schedule(paused=True), START + 1)
    assert decision.trigger("trigger/1", START, Overlap.SKIP, "ann").identity == "ann"
    decision.advance()
    assert states(decision) == ["STARTING"]
    jittered = schedule(times=Times(Once(START + 100), jitter=50.0))
    due = passed(jittered, 99).due()
    assert due is not None and START + 100 < due < START + 150
    assert not passed(jittered, due - START - 0.001).fires
    assert passed(jittered, due - START).fires[0].planned == START + 100
