"""Schedules, and their fires."""

from __future__ import annotations

from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.errors import ArchonError
from archon.status import from_failure
from archon.types.message_view import MessageView
from archon.wire import text_of, to_seconds


class ScheduleFire(MessageView[pb.ScheduleFire]):
    """One fire of a schedule."""

    __slots__ = ()

    _SHOWN = ("fire_id", "state", "run_id")

    @property
    def fire_id(self) -> str:
        """Id of the fire within its schedule: its time, or the id of the request that triggered it."""
        return self.proto.fire_id

    @property
    def planned_time(self) -> float:
        """The time that it is for, without jitter, in seconds since the epoch."""
        return to_seconds(self.proto.planned_time)

    @property
    def state(self) -> str:
        """starting, waiting, running, completed, failed, cancelled, skipped, missed or refused."""
        return pb.FireState.Name(self.proto.state).removeprefix("FIRE_STATE_").lower()

    @property
    def run_id(self) -> str:
        """Its run; empty if none was submitted yet."""
        return self.proto.run_id

    @property
    def start_time(self) -> float | None:
        """When the run was submitted, in seconds since the epoch; None if it was not."""
        return to_seconds(self.proto.start_time) if self.proto.HasField("start_time") else None

    @property
    def reason(self) -> str:
        """Why no run was submitted, or not yet; empty if there is none."""
        return self.proto.reason

    @property
    def failure(self) -> ArchonError | None:
        """The failure of the last try to submit the run; None if there is none."""
        return from_failure(self.proto.failure) if self.proto.HasField("failure") else None

    @property
    def times(self) -> int:
        """The number of times that were missed; at least so many if `times_more`."""
        return self.proto.times

    @property
    def times_more(self) -> bool:
        """Whether more times than counted were missed."""
        return self.proto.times_more

    @property
    def triggered_by(self) -> str:
        """The identity that triggered it; empty if the schedule did."""
        return self.proto.triggered_by


class Schedule(MessageView[pb.Schedule]):
    """A schedule. Times are in seconds since the epoch, durations in seconds."""

    __slots__ = ()

    _SHOWN = ("name", "timing", "paused")

    @property
    def name(self) -> str:
        """Name of the schedule, unique per tenant."""
        return self.proto.name

    @property
    def timing(self) -> str:
        """Its times, for people, such as `0 2 * * * (Europe/Berlin)`, `every 3600 s` or `once`."""
        times = self.proto.times
        if times.cron:
            return f"{times.cron} ({times.time_zone or 'UTC'})"
        if times.HasField("every"):
            offset = f", {to_seconds(times.offset):g} s later" if times.HasField("offset") else ""
            return f"every {to_seconds(times.every):g} s{offset}"
        return "once"

    @property
    def time_zone(self) -> str:
        """Time zone of its cron expression, by its name in the IANA database; UTC if it has no other."""
        return self.proto.times.time_zone or "UTC"

    @property
    def jitter(self) -> float:
        """By how much a time is delayed at most, in seconds."""
        return to_seconds(self.proto.times.jitter)

    @property
    def goal(self) -> str:
        """The text of the goal of its runs; empty in lists."""
        return text_of(self.proto.run.goal)

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that take part in its runs; empty if the strategy chooses."""
        return tuple(self.proto.run.roles)

    @property
    def overlap(self) -> str:
        """skip, buffer_one, buffer_all, cancel_other or allow_all."""
        return pb.OverlapPolicy.Name(self.proto.policies.overlap).removeprefix("OVERLAP_POLICY_").lower()

    @property
    def catch_up(self) -> str:
        """latest, all or skip."""
        return pb.CatchUpPolicy.Name(self.proto.policies.catch_up).removeprefix("CATCH_UP_POLICY_").lower()

    @property
    def catch_up_window(self) -> float:
        """How late a time may fire, in seconds."""
        return to_seconds(self.proto.policies.catch_up_window)

    @property
    def pause_on_failure(self) -> bool:
        """Whether a run that fails pauses it."""
        return self.proto.policies.pause_on_failure

    @property
    def max_runs(self) -> int:
        """Number of runs after which it ends; 0: no limit."""
        return self.proto.times.max_runs

    @property
    def note(self) -> str:
        """Note for people."""
        return self.proto.note

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.proto.paused

    @property
    def pause_reason(self) -> str:
        """Why it is paused."""
        return self.proto.pause_reason

    @property
    def ended(self) -> bool:
        """Whether it fires no more, because its times or its number of runs are over."""
        return self.proto.ended

    @property
    def state(self) -> str:
        """active, paused or ended."""
        return "ended" if self.ended else "paused" if self.paused else "active"

    @property
    def etag(self) -> str:
        """Identifies this state of its times, run, policies, note and pause."""
        return self.proto.etag

    @property
    def identity(self) -> str:
        """The identity whose rights its runs have."""
        return self.proto.identity

    @property
    def create_time(self) -> float:
        """When it was created."""
        return to_seconds(self.proto.create_time)

    @property
    def update_time(self) -> float:
        """When it was changed last."""
        return to_seconds(self.proto.update_time)

    @property
    def next_times(self) -> tuple[float, ...]:
        """The next times, without jitter, at most 10; in lists one."""
        return tuple(map(to_seconds, self.proto.next_times))

    @property
    def open_fires(self) -> tuple[ScheduleFire, ...]:
        """The fires that have not ended, oldest first, at most 100; none in lists."""
        return tuple(map(ScheduleFire, self.proto.open_fires))

    @property
    def runs(self) -> int:
        """Number of runs that were submitted."""
        return self.proto.runs

    @property
    def skipped(self) -> int:
        """Number of times that were skipped, because a run was in progress."""
        return self.proto.skipped

    @property
    def missed(self) -> int:
        """Number of times that passed without a fire."""
        return self.proto.missed

    @property
    def refused(self) -> int:
        """Number of fires whose run was refused."""
        return self.proto.refused

    @property
    def failed(self) -> int:
        """Number of runs that failed."""
        return self.proto.failed
