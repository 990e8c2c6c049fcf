"""Schedules and their fires as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from archon_services.cli.render.output import print_table
from archon_services.cli.when import duration_text
from archon_services.reports.texts import local_time, one_line, strip_controls

if TYPE_CHECKING:
    from archon.types import Schedule, ScheduleFire

GOAL: Final = 60
REASON: Final = 60
"""Characters of a goal and of a reason in lines."""

_LIST: Final = ("schedule", "state", "times", "next", "runs", "failed")
_FIRES: Final = ("time", "state", "run", "reason")


def print_schedules(schedules: Sequence[Schedule]) -> None:
    """Prints a line for each schedule."""
    if not schedules:
        print("There is no schedule. `archon schedule add` adds one.")
        return
    print_table(_LIST, [_row(each) for each in schedules], right=(4, 5))


def _row(schedule: Schedule) -> tuple[str, ...]:
    following = local_time(schedule.next_times[0]) if schedule.next_times else "-"
    times = one_line(schedule.timing, 40)
    return schedule.name, schedule.state, times, following, str(schedule.runs), str(schedule.failed)


def print_schedule(schedule: Schedule, fires: Sequence[ScheduleFire]) -> None:
    """Prints a schedule, and fires of it."""
    lines = list(_lines(schedule))
    width = max(len(name) for name, _ in lines)
    print(f"{schedule.name}: {schedule.state}")
    for name, text in lines:
        print(f"  {name:{width}}  {text}")
    if fires:
        print()
        print_fires(fires)


def _lines(schedule: Schedule) -> Iterator[tuple[str, str]]:
    yield "times", schedule.timing
    for time, text in zip(schedule.next_times[:5], ["next", "", "", "", ""], strict=False):
        yield text, time_in_zone(time, schedule.time_zone)
    if schedule.jitter:
        yield "jitter", f"up to {duration_text(schedule.jitter)}"
    yield "goal", one_line(schedule.goal, GOAL)
    if schedule.roles:
        yield "roles", ", ".join(map(strip_controls, schedule.roles))
    window = duration_text(schedule.catch_up_window)
    yield "policies", f"overlap {schedule.overlap}, catch up {schedule.catch_up} within {window}"
    if schedule.pause_on_failure:
        yield "", "a run that fails pauses it"
    if schedule.paused and schedule.pause_reason:
        yield "paused", one_line(schedule.pause_reason, GOAL)
    if schedule.note:
        yield "note", one_line(schedule.note, GOAL)
    yield "owner", strip_controls(schedule.identity)
    limit = f" of {schedule.max_runs}" if schedule.max_runs else ""
    counts = f"{schedule.runs}{limit}, {schedule.failed} failed; times skipped {schedule.skipped}"
    yield "runs", f"{counts}, missed {schedule.missed}, refused {schedule.refused}"


def time_in_zone(time: float, zone: str) -> str:
    """Formats seconds since the epoch in a time zone, and in the local one if its clock differs then."""
    from datetime import datetime
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    local = datetime.fromtimestamp(time).astimezone()
    try:
        there = datetime.fromtimestamp(time, ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return local_time(time)
    if there.utcoffset() == local.utcoffset():
        return local_time(time)
    return f"{there:%Y-%m-%d %H:%M:%S} {there.isoformat()[-6:]}, here {local_time(time)}"


def print_fires(fires: Sequence[ScheduleFire]) -> None:
    """Prints a line for each fire."""
    if fires:
        print_table(_FIRES, [_fire_row(fire) for fire in fires], folded=(3,))


def _fire_row(fire: ScheduleFire) -> tuple[str, ...]:
    return local_time(fire.planned_time), fire.state, fire.run_id or "-", one_line(_reason(fire), REASON)


def _reason(fire: ScheduleFire) -> str:
    if fire.state == "missed":
        more = " or more" if fire.times_more else ""
        return f"{fire.times}{more} times: {fire.reason}" if fire.times > 1 else fire.reason
    return fire.reason or (f"triggered by {fire.triggered_by}" if fire.triggered_by else "")


def values(schedule: Schedule) -> dict[str, Any]:
    """Returns a schedule as JSON has it: times in seconds since the epoch."""
    names = (
        "name", "state", "timing", "time_zone", "next_times", "jitter", "goal", "roles", "overlap", "catch_up",
        "catch_up_window", "pause_on_failure", "max_runs", "note", "paused", "pause_reason", "ended", "identity",
        "etag", "create_time", "update_time", "runs", "failed", "skipped", "missed", "refused",
    )  # fmt: skip
    shown = {name: getattr(schedule, name) for name in names}
    return {**shown, "open_fires": [fire_values(fire) for fire in schedule.open_fires]}


def fire_values(fire: ScheduleFire) -> dict[str, Any]:
    """Returns a fire as JSON has it."""
    names = (
        "fire_id",
        "planned_time",
        "state",
        "run_id",
        "start_time",
        "reason",
        "times",
        "times_more",
        "triggered_by",
    )
    return {name: getattr(fire, name) for name in names}
