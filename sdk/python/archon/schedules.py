"""Client of schedules: runs that the orchestrator submits at times.

await client.schedules.create("nightly", "Review the day.", cron="0 2 * * *", time_zone="Europe/Berlin")
"""

from __future__ import annotations

import builtins
import uuid
from collections.abc import AsyncGenerator
from typing import Any, Final, TypedDict, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.api.orchestrator.v1 import schedule_service_pb2_grpc
from archon.errors import InvalidArgument
from archon.pages import listed, pages
from archon.submission import Goal, RunOptions, run_changes, submit_request
from archon.types.schedule import Schedule, ScheduleFire
from archon.wire import set_seconds

__all__ = ["FIRE_KEY", "SCHEDULE_KEY", "ScheduleOptions", "Schedules"]

SCHEDULE_KEY: Final = "dev.archon/schedule"
"""The metadata of a run with the name of the schedule that has submitted it."""

FIRE_KEY: Final = "dev.archon/schedule-fire"
"""The metadata of a run with the id of its fire: its time, or the request that triggered it."""

CALL_TIMEOUT: Final = 10.0
PAGE: Final = 100

_TIMINGS: Final = frozenset({"cron", "every", "at"})
_POLICIES: Final = frozenset({"overlap", "catch_up", "catch_up_window", "pause_on_failure"})


class ScheduleOptions(TypedDict, total=False):
    """When a schedule fires, and its policies. Times are in seconds since the epoch, durations in seconds.

    One of `cron` (five fields, or @daily and the like; in `time_zone`, a name of the IANA database, by default UTC),
    `every` (an interval, counted from the epoch, plus `offset`) and `at` (one time) is needed. No time is before
    `start` or after `end`; `jitter` delays each by a part of it; the schedule ends after `max_runs` runs.

    `overlap` is the policy of fires while a run is in progress: `skip` (the default), `buffer_one`, `buffer_all`,
    `cancel_other` or `allow_all`. `catch_up` says which times fire late, if no orchestrator could fire them: the
    `latest` (the default), `all` or none (`skip`), within `catch_up_window` (a day). With `pause_on_failure` a run that
    fails pauses the schedule. `note` is for people."""

    cron: str
    time_zone: str
    every: float
    offset: float
    at: float
    start: float
    end: float
    jitter: float
    max_runs: int
    overlap: str
    catch_up: str
    catch_up_window: float
    pause_on_failure: bool
    note: str


class Schedules:
    """The schedules of the caller's tenant. Calls raise the errors that the orchestrator raised."""

    def __init__(self, channel: Any) -> None:
        self._stub = schedule_service_pb2_grpc.ScheduleServiceStub(channel)

    async def create(
        self,
        name: str,
        goal: Goal,
        *,
        run: RunOptions | None = None,
        paused: bool = False,
        request_id: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Creates a schedule that submits `goal` with the options `run` of `Client.submit`, durable on return. The runs
        have the rights that the caller has at each fire. An empty `request_id` is replaced by a new one: gRPC's retries
        of one call create one.

        Raises InvalidArgument, AlreadyExists if the name is taken, ResourceExhausted if there are too many."""
        schedule = _schedule(name, goal, run, options)
        schedule.paused = paused
        request = pb.CreateScheduleRequest(request_id=request_id or uuid.uuid4().hex, schedule=schedule)
        return Schedule((await self._stub.CreateSchedule(request, timeout=CALL_TIMEOUT)).schedule)

    async def get(self, name: str) -> Schedule:
        """Returns a schedule. Raises UnknownSchedule."""
        return Schedule((await self._stub.GetSchedule(pb.GetScheduleRequest(name=name), timeout=CALL_TIMEOUT)).schedule)

    async def list(self) -> list[Schedule]:
        """Returns the schedules of the tenant by name, without goals and open fires."""
        request = pb.ListSchedulesRequest(page_size=PAGE)
        return await listed(self._stub.ListSchedules, request, "schedules", Schedule, timeout=CALL_TIMEOUT)

    async def update(
        self,
        name: str,
        goal: Goal,
        *,
        run: RunOptions | None = None,
        etag: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Replaces the run and the times of a schedule; options that are not given have their defaults. Its runs have
        the rights of the caller from then on. With an `etag` the schedule must be as it was read.

        Raises UnknownSchedule, ScheduleChanged if it was changed since, InvalidArgument."""
        schedule = _schedule(name, goal, run, options)
        request = pb.UpdateScheduleRequest(schedule=schedule, etag=etag, update_mask=FieldMask(paths=["*"]))
        return Schedule((await self._stub.UpdateSchedule(request, timeout=CALL_TIMEOUT)).schedule)

    async def edit(
        self,
        name: str,
        *,
        goal: Goal | None = None,
        run: RunOptions | None = None,
        etag: str = "",
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:
        """Changes the given options of a schedule, its goal if there is one, and the given options of its `run`. The
        rest stays, also changes of another caller at the same time. Another one of `cron`, `every` and `at` takes the
        place of the one before. Times that have come fire as they were. The runs have the rights of the caller from
        then on. With an `etag` the schedule must be as it was read.

        Raises UnknownSchedule, ScheduleChanged, InvalidArgument."""
        request, fields = run_changes(goal, run)
        schedule = _schedule(name, "-", None, options)
        schedule.run.CopyFrom(request)
        paths = [*(f"run.{field}" for field in fields), *_paths(options)]
        if not paths:
            raise InvalidArgument("nothing to change: give a goal or an option")
        update = pb.UpdateScheduleRequest(schedule=schedule, etag=etag, update_mask=FieldMask(paths=paths))
        return Schedule((await self._stub.UpdateSchedule(update, timeout=CALL_TIMEOUT)).schedule)

    async def pause(self, name: str, reason: str = "") -> Schedule:
        """Pauses a schedule. Raises UnknownSchedule."""
        request = pb.PauseScheduleRequest(name=name, reason=reason)
        return Schedule((await self._stub.PauseSchedule(request, timeout=CALL_TIMEOUT)).schedule)

    async def resume(self, name: str) -> Schedule:
        """Resumes a schedule; times that passed meanwhile are not made up for. Raises UnknownSchedule."""
        request = pb.ResumeScheduleRequest(name=name)
        return Schedule((await self._stub.ResumeSchedule(request, timeout=CALL_TIMEOUT)).schedule)

    async def trigger(self, name: str, *, overlap: str = "", request_id: str = "") -> ScheduleFire:
        """Fires a schedule now, even if it is paused. Raises UnknownSchedule, ResourceExhausted."""
        request = pb.TriggerScheduleRequest(
            name=name, overlap=_overlap(overlap), request_id=request_id or uuid.uuid4().hex
        )
        response = await self._stub.TriggerSchedule(request, timeout=CALL_TIMEOUT)
        return ScheduleFire(response.fires[0])

    async def backfill(
        self, name: str, start: float, end: float | None = None, *, overlap: str = ""
    ) -> builtins.list[ScheduleFire]:
        """Fires for each time of a schedule from `start` to `end` (by default now) that has no run, in order; one after
        the other unless `overlap` says otherwise. Raises UnknownSchedule, InvalidArgument if there is no such time,
        ResourceExhausted."""
        request = pb.TriggerScheduleRequest(name=name, overlap=_overlap(overlap))
        set_seconds(request.start, start)
        if end is not None:
            set_seconds(request.end, end)
        response = await self._stub.TriggerSchedule(request, timeout=CALL_TIMEOUT)
        return [ScheduleFire(fire) for fire in response.fires]

    async def delete(self, name: str, *, etag: str = "") -> None:
        """Deletes a schedule and its list of fires; its runs go on. Raises UnknownSchedule, ScheduleChanged."""
        await self._stub.DeleteSchedule(pb.DeleteScheduleRequest(name=name, etag=etag), timeout=CALL_TIMEOUT)

    async def fires(self, name: str) -> AsyncGenerator[ScheduleFire, None]:
        """Yields the fires of a schedule, the newest first. Raises UnknownSchedule."""
        request = pb.ListFiresRequest(name=name, page_size=PAGE)
        async for page in pages(self._stub.ListFires, request, timeout=CALL_TIMEOUT):
            for fire in page.fires:
                yield ScheduleFire(fire)


def _schedule(name: str, goal: Goal, run: RunOptions | None, options: ScheduleOptions) -> pb.Schedule:
    """Returns the message of a schedule. Raises InvalidArgument if a policy is unknown, and the errors of a submit."""
    schedule = pb.Schedule(name=name, note=options.get("note", ""), run=submit_request(goal, **(run or {})))
    for field in ("request_id", "trace"):
        schedule.run.ClearField(field)
    times, policies = schedule.times, schedule.policies
    times.cron, times.time_zone = options.get("cron", ""), options.get("time_zone", "")
    times.max_runs = options.get("max_runs", 0)
    given: Any = options
    for field in ("every", "offset", "at", "start", "end", "jitter"):
        if given.get(field) is not None:
            set_seconds(getattr(times, field), given[field])
    policies.overlap = _overlap(options.get("overlap", ""))
    policies.catch_up = _policy(pb.CatchUpPolicy, "CATCH_UP_POLICY_", options.get("catch_up", ""))
    policies.pause_on_failure = options.get("pause_on_failure", False)
    if (window := options.get("catch_up_window")) is not None:
        set_seconds(policies.catch_up_window, window)
    return schedule


def _paths(options: ScheduleOptions) -> builtins.list[str]:
    """Returns the fields of a schedule that options set."""
    found = [
        f"policies.{name}" if name in _POLICIES else name if name == "note" else f"times.{name}" for name in options
    ]
    if _TIMINGS & options.keys():  # the others are cleared
        found += [f"times.{name}" for name in (*sorted(_TIMINGS), "time_zone", "offset")]
    return list(dict.fromkeys(found))


def _overlap(name: str) -> pb.OverlapPolicy.ValueType:
    value: pb.OverlapPolicy.ValueType = _policy(pb.OverlapPolicy, "OVERLAP_POLICY_", name)
    return value


def _policy(enum: Any, prefix: str, name: str) -> Any:
    if not name:
        return 0
    values = {value.removeprefix(prefix).lower(): value for value in enum.keys()[1:]}
    if name.lower() not in values:
        raise InvalidArgument(f"unknown policy {name!r}; use one of {', '.join(values)}")
    return enum.Value(values[name.lower()])
