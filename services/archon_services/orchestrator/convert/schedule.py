"""Schedules between the contract and the domain."""

from __future__ import annotations

from typing import Any

from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.wire import set_seconds, to_seconds
from archon_services.orchestrator.schedules.schedule import CatchUp, Fire, Overlap, Policies, Schedule
from archon_services.orchestrator.schedules.times import MAX_TIME, Cron, Every, Once, Times, Timing, next_times

DEFAULTS = Policies()


def times_from_proto(message: pb.ScheduleTimes) -> Times:
    """Reads times that have one of cron, every and at."""
    timing: Timing
    if message.cron:
        timing = Cron(message.cron.strip(), message.time_zone or "UTC")
    elif message.HasField("every"):
        timing = Every(to_seconds(message.every), to_seconds(message.offset))
    else:
        timing = Once(to_seconds(message.at))
    return Times(
        timing,
        to_seconds(message.start) if message.HasField("start") else 0.0,
        to_seconds(message.end) if message.HasField("end") else MAX_TIME,
        to_seconds(message.jitter),
        message.max_runs,
    )


def policies_from_proto(message: pb.SchedulePolicies) -> Policies:
    """Reads policies; those that are not set have the defaults."""
    return Policies(
        Overlap(message.overlap) if message.overlap else DEFAULTS.overlap,
        CatchUp(message.catch_up) if message.catch_up else DEFAULTS.catch_up,
        to_seconds(message.catch_up_window) if message.HasField("catch_up_window") else DEFAULTS.window,
        message.pause_on_failure,
    )


def definition_from_proto(message: pb.Schedule) -> dict[str, Any]:
    """Returns the fields of a schedule that its callers write."""
    return {
        "times": times_from_proto(message.times),
        "run": message.run.SerializeToString(deterministic=True),
        "policies": policies_from_proto(message.policies),
        "note": message.note,
    }


def definition_to_proto(schedule: Schedule) -> pb.Schedule:
    """Returns the message with the fields of a schedule that its callers write, and its name."""
    out = pb.Schedule(name=schedule.name, note=schedule.note)
    _write_times(schedule.times, out.times)
    policies = schedule.policies
    out.policies.overlap = pb.OverlapPolicy.ValueType(int(policies.overlap))
    out.policies.catch_up = pb.CatchUpPolicy.ValueType(int(policies.catch_up))
    out.policies.pause_on_failure = policies.pause_on_failure
    set_seconds(out.policies.catch_up_window, policies.window)
    out.run.ParseFromString(schedule.run)
    return out


def schedule_to_proto(schedule: Schedule, now: float, *, details: bool) -> pb.Schedule:
    """Returns the message of a schedule; without `details` it has one next time, no open fires, no goal and no plan."""
    out = definition_to_proto(schedule)
    out.paused, out.pause_reason, out.ended = schedule.paused, schedule.pause_reason, bool(schedule.ended)
    out.etag, out.identity = etag_of(schedule), schedule.owner.identity
    out.runs, out.failed = schedule.runs, schedule.failed
    out.skipped, out.missed, out.refused = schedule.skipped, schedule.missed, schedule.refused
    set_seconds(out.create_time, schedule.created)
    set_seconds(out.update_time, schedule.updated)
    if not (schedule.ended or schedule.paused):
        left = max(0, schedule.times.max_runs - schedule.runs) if schedule.times.max_runs else 10
        limit = min(10 if details else 1, left)
        for time in next_times(schedule.times, max(schedule.cursor, now), limit):
            set_seconds(out.next_times.add(), time)
    if details:
        out.open_fires.extend(fire_to_proto(fire) for fire in schedule.open_fires[:100])
    else:
        out.run.ClearField("goal")
        out.run.ClearField("plan_json")
    return out


def etag_of(schedule: Schedule) -> str:
    """Returns the etag of a schedule."""
    return f"{schedule.uid}-{schedule.version}"


def _write_times(times: Times, out: pb.ScheduleTimes) -> None:
    timing = times.timing
    if isinstance(timing, Cron):
        out.cron, out.time_zone = timing.expression, timing.zone
    elif isinstance(timing, Every):
        set_seconds(out.every, timing.interval)
        if timing.offset:
            set_seconds(out.offset, timing.offset)
    else:
        set_seconds(out.at, timing.time)
    if times.start:
        set_seconds(out.start, times.start)
    if times.end < MAX_TIME:
        set_seconds(out.end, times.end)
    if times.jitter:
        set_seconds(out.jitter, times.jitter)
    out.max_runs = times.max_runs


def fire_to_proto(fire: Fire) -> pb.ScheduleFire:
    """Returns the message of a fire."""
    out = pb.ScheduleFire(
        fire_id=fire.fire_id,
        state=pb.FireState.ValueType(int(fire.state)),
        run_id=fire.run_id,
        reason=fire.reason,
        times=fire.times,
        times_more=fire.times_more,
        triggered_by=fire.identity,
    )
    set_seconds(out.planned_time, fire.planned)
    if fire.started:
        set_seconds(out.start_time, fire.started)
    if fire.failure:
        out.failure.ParseFromString(fire.failure)
    return out
