"""Checks of schedules before they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from archon.api.orchestrator.v1 import orchestrator_service_pb2 as run_pb
from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.errors import ArchonError, FieldViolation, InvalidArgument, MessageTooLarge
from archon.wire import to_seconds
from archon_services.orchestrator.api.scheduled_runs import KEYS
from archon_services.orchestrator.api.validation import MAX_METADATA, check_submit
from archon_services.orchestrator.convert.schedule import times_from_proto
from archon_services.orchestrator.schedules.times import MAX_TIME, Times, check_timing, next_time

MAX_RUN_BYTES: Final = 256 * 1024
"""Bytes of the run that a schedule submits."""

MAX_NOTE: Final = 4_096
MAX_REQUEST_ID: Final = 200
MAX_WINDOW: Final = 366 * 86_400.0
MAX_JITTER: Final = 86_400.0
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOT_SCHEDULED: Final = ("request_id", "wait", "trace", "breakpoints")


def check_schedule(schedule: pb.Schedule, now: float, *, before: Times | None = None) -> None:
    """Raises InvalidArgument with all field violations, the errors of a submit about the run, and MessageTooLarge if
    the run is too large. `now` is in wall seconds: times after it must come, unless the times are those `before`."""
    check_submit(schedule.run)
    if (size := schedule.run.ByteSize()) > MAX_RUN_BYTES:
        raise MessageTooLarge(
            f"message too large: the run of the schedule has {size:,} bytes, at most {MAX_RUN_BYTES:,} are allowed",
            metadata={"size": str(size), "limit": str(MAX_RUN_BYTES)},
            field_violations=[FieldViolation("run", "too large")],
        )
    check_violations([*_violations(schedule), *_run_violations(schedule.run)])
    try:
        times = times_from_proto(schedule.times)
        check_timing(times.timing)
    except (ArchonError, ValueError, OverflowError) as error:
        check_violations([FieldViolation("times", str(error))])
    if times != before and next_time(times, now) is None:
        check_violations([FieldViolation("times", "no time of the schedule is to come")])


def check_violations(violations: list[FieldViolation]) -> None:
    """Raises InvalidArgument if there are any."""
    if violations:
        text = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
        raise InvalidArgument(text, field_violations=violations)


def check_note(name: str, text: str) -> None:
    """Raises InvalidArgument if a note is too long."""
    if len(text) > MAX_NOTE:
        check_violations([FieldViolation(name, f"longer than {MAX_NOTE:,} characters")])


def _violations(schedule: pb.Schedule) -> Iterator[FieldViolation]:
    times, policies = schedule.times, schedule.policies
    if not NAME.fullmatch(schedule.name):
        yield FieldViolation("name", "expected up to 100 letters, digits, `.`, `-` and `_`, a letter or digit first")
    for name in ("note", "pause_reason"):
        if len(getattr(schedule, name)) > MAX_NOTE:
            yield FieldViolation(name, f"longer than {MAX_NOTE:,} characters")
    if sum((bool(times.cron), times.HasField("every"), times.HasField("at"))) != 1:
        yield FieldViolation("times", "needs one of cron, every and at")
    if times.time_zone and not times.cron:
        yield FieldViolation("times.time_zone", "only a cron expression has a time zone")
    if times.HasField("offset") and not times.HasField("every"):
        yield FieldViolation("times.offset", "only an interval has an offset")
    if not 0 <= to_seconds(times.jitter) <= MAX_JITTER:
        yield FieldViolation("times.jitter", f"must be 0 to {MAX_JITTER:g} s")
    for name, message in (("start", times.start), ("end", times.end)):
        if times.HasField(name) and not 0 <= to_seconds(message) <= MAX_TIME:  # type: ignore[arg-type]
            yield FieldViolation(f"times.{name}", "must be after 1970 and before 9999")
    if times.max_runs < 0:
        yield FieldViolation("times.max_runs", "must not be negative")
    if policies.HasField("catch_up_window") and not 1 <= to_seconds(policies.catch_up_window) <= MAX_WINDOW:
        yield FieldViolation("policies.catch_up_window", f"must be 1 to {MAX_WINDOW:g} s")
    if policies.overlap not in pb.OverlapPolicy.values():
        yield FieldViolation("policies.overlap", "is no policy of this orchestrator")
    if policies.catch_up not in pb.CatchUpPolicy.values():
        yield FieldViolation("policies.catch_up", "is no policy of this orchestrator")


def _run_violations(run: run_pb.SubmitRunRequest) -> Iterator[FieldViolation]:
    given = {field.name for field, _ in run.ListFields()}
    for name in _NOT_SCHEDULED:
        if name in given:
            yield FieldViolation(f"run.{name}", "must not be set: a schedule submits many runs")
    if len(run.metadata.keys() - set(KEYS)) > MAX_METADATA - len(KEYS):
        yield FieldViolation("run.metadata", f"at most {MAX_METADATA - len(KEYS)} keys")
