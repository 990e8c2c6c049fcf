"""Edits of schedules: no time is lost, fired twice, or fired though the schedule does not have it any more."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from archon_services.orchestrator.schedules.codec import schedule_from_row, schedule_to_row
from archon_services.orchestrator.schedules.decision import Decision
from archon_services.orchestrator.schedules.schedule import (
    CatchUp,
    Fire,
    FireState,
    Overlap,
    Owner,
    Policies,
    Schedule,
)
from archon_services.orchestrator.schedules.times import Cron, Every, Once, Times, delay_of, times_between

BERLIN = ZoneInfo("Europe/Berlin")
ALLOW = Policies(Overlap.ALLOW_ALL)


def at(text: str, *, fold: int = 0) -> float:
    """Returns the time of a text, by the clock in Berlin."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def clock(*fires: Fire) -> list[str]:
    """Returns the times of fires, by the clock in Berlin."""
    return [datetime.fromtimestamp(fire.planned, BERLIN).strftime("%m-%d %H:%M") for fire in fires]


class Course:
    """A schedule over time, whose runs are there at once and go on."""

    def __init__(self, start: str, times: Times, policies: Policies = ALLOW, **fields: object) -> None:
        now = at(start)
        made = {"owner": Owner("ann"), "created": now, "updated": now, "cursor": now, "policies": policies}
        self.schedule = Schedule("t", "s", "a", times, b"run", **{**made, **fields})  # type: ignore[arg-type]
        self.fired: list[Fire] = []
        self.requests: list[bytes] = []

    def until(self, now: float | str) -> list[Fire]:
        """Lets time pass. Returns what was fired and the times that were missed."""
        return self._decided(Decision(self._stored(), at(now) if isinstance(now, str) else now))

    def edit(self, now: float | str, **fields: object) -> list[Fire]:
        """Changes fields at a time. Returns what was fired at that moment."""
        decision = Decision(self._stored(), at(now) if isinstance(now, str) else now)
        decision.redefine(**fields)
        return self._decided(decision)

    def ends(self, now: float | str) -> list[Fire]:
        """Ends the oldest run. Returns what was fired at that moment."""
        decision = Decision(self._stored(), at(now) if isinstance(now, str) else now)
        decision.ended(decision.fires_in(FireState.RUNNING)[0].run_id, FireState.COMPLETED)
        return self._decided(decision)

    def states(self) -> list[str]:
        return [fire.state.name for fire in self.schedule.open_fires]

    def _stored(self) -> Schedule:
        return schedule_from_row(schedule_to_row(self.schedule, 1, None))

    def _decided(self, decision: Decision) -> list[Fire]:
        decision.advance()
        starting = decision.fires_in(FireState.STARTING)
        missed = [fire for fire in decision.fires if fire.state is FireState.MISSED]
        self.requests += [fire.request for fire in starting]
        for fire in starting:
            decision.submitted(fire.fire_id, f"run-{fire.number}")
        decision.advance()
        self.schedule, fires = decision.schedule, [*missed, *starting]
        self.fired += fires
        return fires


def cron(expression: str, zone: str = "Europe/Berlin", **fields: float) -> Times:
    return Times(Cron(expression, zone), **fields)  # type: ignore[arg-type]


DAILY = cron("0 9 * * *")


@pytest.mark.parametrize(
    "fields",
    [{"note": "n"}, {"run": b"other"}, {"policies": Policies(Overlap.SKIP)}, {"times": DAILY}, {}],
    ids=lambda fields: "+".join(fields) or "nothing",
)
def test_an_edit_right_after_a_time_fires_that_time_once(fields: dict[str, object]) -> None:
    course = Course("2026-06-01T08:00", DAILY)
    assert clock(*course.edit("2026-06-01T09:00:02", **fields)) == ["06-01 09:00"], "no replica had looked since"
    assert not course.until("2026-06-02T08:59")
    assert (
        clock(*course.until("2026-06-02T09:00")) == ["06-02 09:00"] or course.schedule.policies.overlap is Overlap.SKIP
    )


def test_a_time_that_has_come_submits_the_run_of_before_the_edit() -> None:
    course = Course("2026-06-01T08:00", DAILY)
    course.edit("2026-06-01T09:00:02", run=b"other")
    course.until("2026-06-02T09:00")
    assert course.requests == [b"run", b"other"]


@pytest.mark.parametrize("first", [{"note": "n"}, {"times": cron("*/5 * * * *", jitter=60.0)}, {"times": "end"}])
def test_a_time_that_its_jitter_delays_is_not_lost_by_an_edit(first: dict[str, object]) -> None:
    times = cron("*/5 * * * *", jitter=60.0)
    planned = at("2026-06-01T12:20")
    delay = delay_of(times, "a", planned)
    assert 1 < delay < 60
    course = Course("2026-06-01T12:16", times)
    if first.get("times") == "end":
        first = {"times": replace(times, end=planned + 3_600)}
    assert not course.edit(planned + 0.5, **first)
    assert not course.until(planned + delay - 0.01)
    assert clock(*course.until(planned + delay)) == ["06-01 12:20"]


def test_a_delayed_time_fires_if_the_new_times_have_it_alone() -> None:
    times = cron("0 * * * *", jitter=600.0)
    planned = at("2026-06-01T12:00")
    now = planned + delay_of(times, "a", planned) / 2
    kept = Course("2026-06-01T11:30", times)
    assert not kept.edit(now, times=cron("0 */4 * * *", jitter=600.0))
    assert clock(*kept.until("2026-06-01T12:20")) == ["06-01 12:00"]
    for other in (cron("30 * * * *", jitter=600.0), cron("* * * * *"), cron("0 12 * * 2-5", jitter=600.0)):  # a Monday
        gone = Course("2026-06-01T11:30", times)
        gone.edit(now, times=other)
        gone.until("2026-06-01T12:20")
        assert "06-01 12:00" not in clock(*gone.fired)


def test_a_shorter_jitter_fires_a_delayed_time_at_once_and_once() -> None:
    times = cron("0 * * * *", jitter=600.0)
    planned = at("2026-06-01T12:00")
    course = Course("2026-06-01T11:30", times)
    assert clock(*course.edit(planned + 0.5, times=cron("0 * * * *"))) == ["06-01 12:00"]
    assert not course.until("2026-06-01T12:59")


@pytest.mark.parametrize(
    ("before", "after", "now", "following"),
    [
        (cron("0 0 10 * *"), cron("0 0 11 * *"), "2026-06-12T10:00", "2026-07-11T00:00"),  # a day later, which is over
        (cron("0 13 * * 2"), cron("0 13 * * 3"), "2026-06-04T09:00", "2026-06-10T13:00"),
        (cron("0 0 * * *"), cron("0 8 * * *"), "2026-06-04T08:00:30", "2026-06-05T08:00"),
        (Times(Every(86_400)), Times(Every(86_400, 3_600)), "2026-06-04T09:00", "2026-06-05T03:00"),
        (Times(Every(2 * 86_400)), Times(Every(5 * 86_400)), "2026-06-04T10:00", "2026-06-06T02:00"),
    ],
)
def test_other_times_fire_at_their_next_one_and_not_at_once(
    before: Times, after: Times, now: str, following: str
) -> None:
    course = Course("2026-06-01T00:30", before)
    course.until(now)
    missed = course.schedule.missed
    assert not course.edit(now, times=after)
    assert not course.until(at(following) - 1)
    assert [fire.planned for fire in course.until(at(following))] == [at(following)]
    assert course.schedule.missed == missed


def test_a_time_that_the_new_times_exclude_is_not_fired() -> None:
    course = Course("2026-06-05T12:00", cron("0 7 * * *"))  # a Friday
    assert not course.edit("2026-06-05T20:00", times=cron("0 7 * * 1-5"))
    assert clock(*course.until("2026-06-08T07:00")) == ["06-08 07:00"]


def test_a_time_that_comes_nearer_is_due_at_once() -> None:
    course = Course("2026-06-01T12:00", cron("0 0 1 1 *"))
    decision = Decision(course.schedule, at("2026-06-01T12:00:10"))
    decision.redefine(times=cron("* * * * *"))
    decision.advance()
    assert decision.due() == at("2026-06-01T12:01")


@pytest.mark.parametrize("minute", range(0, 60, 15))
@pytest.mark.parametrize("fold", [0, 1])
def test_an_edit_in_the_hour_that_comes_twice_fires_a_fixed_time_once(minute: int, fold: int) -> None:
    course = Course("2026-10-24T12:00", cron("30 2 * * *"))
    now = at(f"2026-10-25T02:{minute:02}", fold=fold)
    course.until(now)
    course.edit(now, note="n")
    course.edit(now + 1, times=cron("30 2 * * *", jitter=1.0))
    course.until("2026-10-26T01:00")
    assert clock(*course.fired) == ["10-25 02:30"]


@pytest.mark.parametrize("now", ["2026-03-29T01:59", "2026-03-29T03:00:10", "2026-03-29T03:30"])
def test_an_edit_around_the_hour_that_is_skipped_fires_it_once(now: str) -> None:
    course = Course("2026-03-28T12:00", cron("30 2 * * *"))
    course.edit(now, note="n")
    course.until("2026-03-30T01:00")
    assert clock(*course.fired) == ["03-29 03:00"]


def test_another_time_zone_fires_by_its_clock_from_then_on() -> None:
    course = Course("2026-06-01T12:00", cron("30 2 * * *"))
    course.until("2026-06-02T02:30")
    assert not course.edit("2026-06-02T03:00", times=cron("30 2 * * *", "UTC"))
    assert clock(*course.until("2026-06-02T04:30")) == ["06-02 04:30"], "02:30 in UTC"
    assert not course.edit("2026-06-02T04:31", times=cron("30 2 * * *", "America/New_York"))
    assert clock(*course.until("2026-06-02T08:30")) == ["06-02 08:30"]


def policy(course: Course, now: str, overlap: Overlap) -> list[Fire]:
    return course.edit(now, policies=Policies(overlap))


def test_a_fire_that_waits_keeps_its_policy_and_later_ones_have_the_new_one() -> None:
    course = Course("2026-06-01T08:30", cron("0 * * * *"), Policies(Overlap.BUFFER_ALL))
    course.until("2026-06-01T09:00")
    course.until("2026-06-01T10:00")
    assert not policy(course, "2026-06-01T10:10", Overlap.SKIP)
    assert course.states() == ["RUNNING", "WAITING"], "it was promised its turn"
    course.until("2026-06-01T11:00")
    assert (course.states(), course.schedule.skipped) == (["RUNNING", "WAITING"], 1)
    assert not policy(course, "2026-06-01T11:10", Overlap.ALLOW_ALL)
    assert clock(*course.until("2026-06-01T12:00")) == ["06-01 12:00"]
    assert course.states() == ["RUNNING", "WAITING", "RUNNING"]
    course.ends("2026-06-01T12:05")
    assert clock(*course.ends("2026-06-01T12:06")) == ["06-01 10:00"]


def test_a_run_in_progress_is_cancelled_by_the_next_fire_and_not_by_the_edit() -> None:
    course = Course("2026-06-01T08:30", cron("0 * * * *"), Policies(Overlap.BUFFER_ONE))
    course.until("2026-06-01T09:00")
    course.until("2026-06-01T10:00")
    policy(course, "2026-06-01T10:10", Overlap.CANCEL_OTHER)
    assert Decision(course.schedule, at("2026-06-01T10:11")).to_cancel() == []
    course.until("2026-06-01T11:00")
    assert Decision(course.schedule, at("2026-06-01T11:00")).to_cancel() == ["run-1"]
    assert clock(*(fire for fire in course.schedule.open_fires if fire.state is FireState.WAITING)) == ["06-01 11:00"]


def test_a_fire_that_waits_submits_the_run_of_the_edit() -> None:
    course = Course("2026-06-01T08:30", cron("0 * * * *"), Policies(Overlap.BUFFER_ONE))
    course.until("2026-06-01T10:00")
    course.until("2026-06-01T11:00")
    course.edit("2026-06-01T11:10", run=b"other")
    course.ends("2026-06-01T11:20")
    assert course.requests == [b"run", b"other"]


def test_a_paused_schedule_stays_paused_and_makes_up_for_nothing() -> None:
    course = Course("2026-06-01T08:30", DAILY, paused=True, pause_reason="holidays")
    assert not course.edit("2026-06-03T12:00", times=cron("0 10 * * *"))
    assert not course.edit("2026-06-03T12:00", note="n")
    assert (course.schedule.paused, course.schedule.pause_reason) == (True, "holidays")
    assert not course.until("2026-06-05T12:00")
    assert course.schedule.missed == 0


def test_what_an_outage_has_missed_follows_the_policy_of_before() -> None:
    every = Policies(Overlap.ALLOW_ALL, CatchUp.ALL)
    course = Course("2026-06-01T08:30", cron("0 * * * *"), every)
    fires = course.edit("2026-06-01T12:10", policies=Policies(Overlap.ALLOW_ALL, CatchUp.SKIP), times=DAILY)
    assert clock(*fires) == ["06-01 09:00", "06-01 10:00", "06-01 11:00", "06-01 12:00"]


def test_an_ended_schedule_goes_on_with_new_times_alone() -> None:
    course = Course("2026-06-01T08:30", cron("0 * * * *", max_runs=2))
    course.until("2026-06-01T09:00")
    course.until("2026-06-01T10:00")
    ended = course.schedule.ended
    assert ended
    course.edit("2026-06-02T00:10", note="n")
    assert course.schedule.ended == ended, "a note is no reason"
    assert not course.edit("2026-06-02T00:10", times=cron("0 * * * *", max_runs=3)), (
        "nor are the times in between made up for"
    )
    assert clock(*course.until("2026-06-02T01:00")) == ["06-02 01:00"]
    assert course.schedule.ended and course.schedule.missed == 0
    once = Course("2026-06-01T08:30", Times(Once(at("2026-06-01T09:00"))))
    assert clock(*once.edit("2026-06-01T09:00:01", note="n")) == ["06-01 09:00"]
    assert not once.edit("2026-06-01T10:00", times=Times(Once(at("2026-06-01T11:00"))))
    assert clock(*once.until("2026-06-01T11:00")) == ["06-01 11:00"]


def test_fewer_runs_than_there_were_end_a_schedule() -> None:
    course = Course("2026-06-01T08:30", cron("0 * * * *"))
    course.until("2026-06-01T09:00")
    course.until("2026-06-01T10:00")
    course.edit("2026-06-01T10:30", times=cron("0 * * * *", max_runs=1))
    assert course.schedule.ended
    assert not course.until("2026-06-01T11:00")


CHOICES: Sequence[Times] = [
    Times(Every(60)), Times(Every(60, 20)), Times(Every(7)), Times(Every(600)), cron("*/3 * * * *"), cron("* * * * *", "UTC"),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_each_time_fires_once_as_it_was_defined_when_it_came(seed: int) -> None:
    chance = random.Random(seed)
    times = chance.choice(CHOICES)
    every = Policies(Overlap.ALLOW_ALL, CatchUp.ALL)
    course = Course("2026-06-01T12:00", times, every)
    now, expected = at("2026-06-01T12:00"), list[float]()
    for _ in range(40):
        later = now + chance.choice([0.0, 0.5, 1.0, 3.0, 20.0, 61.0])
        expected += times_between(times, now, later, 1_000)[0]
        kind = chance.random()
        if kind < 0.4:
            course.until(later)
        elif kind < 0.6:
            course.edit(later, note=str(later))
        else:
            times = chance.choice(CHOICES)
            course.edit(later, times=times)
        while any(fire.state is FireState.RUNNING for fire in course.schedule.open_fires):
            course.ends(later)
        now = later
    assert sorted(fire.planned for fire in course.fired) == sorted(expected)
    assert course.schedule.missed == course.schedule.skipped == 0
