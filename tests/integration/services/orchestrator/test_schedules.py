"""Schedules over real servers: their runs, restarts between fires, the rights of their owner, and quotas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from archon import context
from archon.agent import AgentServer, TaskContext
from archon.api.orchestrator.v1 import schedule_service_pb2 as pb
from archon.audit_client import AuditClient
from archon.client import Client
from archon.errors import (
    AlreadyExists,
    InvalidArgument,
    MessageTooLarge,
    PermissionDenied,
    QuotaExceeded,
    ScheduleChanged,
    TokenRevoked,
    UnknownRole,
    UnknownSchedule,
)
from archon.principal import Kind, Principal
from archon.schedules import Schedules
from archon.types import Schedule, ScheduleFire
from archon_services.common import machine
from archon_services.testing.in_process import InProcessMesh
from tests.fixtures.mesh import Mesh
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import eventually

RUN: Final[Any] = {"roles": ["echo"]}


def soon(seconds: float) -> float:
    """Returns the offset of an interval of 10 s with which its next time comes in so many seconds."""
    return (machine.wall_time() + seconds) % 10


async def fires_of(schedules: Schedules, name: str) -> list[ScheduleFire]:
    return [fire async for fire in schedules.fires(name)]


async def reached(schedules: Schedules, name: str, *states: str) -> list[ScheduleFire]:
    """Waits until the fires, the newest first, have these states."""
    found: list[ScheduleFire] = []

    async def has() -> bool:
        found[:] = await fires_of(schedules, name)
        return [fire.state for fire in found] == list(states)

    await eventually(has)
    return found


@pytest.fixture
async def schedules(own_mesh: Mesh) -> Schedules:
    await own_mesh.agent("echo")
    return own_mesh.client.schedules


async def test_a_schedule_submits_a_run_that_names_it(own_mesh: Mesh, schedules: Schedules) -> None:
    added = await schedules.create("minutely", "look", cron="* * * * *", run=RUN, note="for people")
    assert (added.state, added.timing, added.goal, added.roles) == ("active", "* * * * * (UTC)", "look", ("echo",))
    assert len(added.next_times) == 10 and added.next_times[0] > added.create_time
    await own_mesh.advance(added.next_times[0] - machine.wall_time() + 0.5)
    [fire] = await reached(schedules, "minutely", "completed")
    assert fire.planned_time == added.next_times[0]
    run = await own_mesh.client.get(fire.run_id)
    assert run.metadata["dev.archon/schedule"] == "minutely"
    assert run.metadata["dev.archon/schedule-fire"] == fire.fire_id
    assert run.answers[0].text == "echo()"
    shown = await schedules.get("minutely")
    assert (shown.runs, shown.open_fires, shown.note) == (1, (), "for people")
    [listed] = await schedules.list()
    assert (listed.name, listed.goal, len(listed.next_times)) == ("minutely", "", 1)


async def test_a_time_during_an_outage_is_made_up_for_once(own_mesh: Mesh, schedules: Schedules) -> None:
    await schedules.create("often", "look", every=10, offset=soon(8), run=RUN)
    once = await schedules.create("once", "look", at=machine.wall_time() + 20, run=RUN)
    await own_mesh.orchestrator.kill()
    await own_mesh.advance(40)
    await own_mesh.orchestrator.start()
    completed, missed = await reached(schedules, "often", "completed", "missed")
    assert missed.times == 3 and completed.planned_time == missed.planned_time + 10
    await reached(schedules, "once", "completed")
    over = await schedules.get("once")
    assert (over.state, over.next_times, once.state) == ("ended", (), "active")


async def test_a_change_needs_the_etag_and_leaves_the_rest(schedules: Schedules) -> None:
    first = await schedules.create("a", "look", every=3_600, run=RUN, overlap="buffer_one", note="n")
    edited = await schedules.edit("a", cron="0 2 * * *", time_zone="Europe/Berlin", max_runs=3, etag=first.etag)
    assert (edited.timing, edited.overlap, edited.max_runs) == ("0 2 * * * (Europe/Berlin)", "buffer_one", 3)
    assert (edited.note, edited.roles) == ("n", ("echo",))
    with pytest.raises(ScheduleChanged):
        await schedules.edit("a", goal="other", etag=first.etag)
    with pytest.raises(ScheduleChanged):
        await schedules.delete("a", etag=first.etag)
    assert (await schedules.edit("a", goal="other", max_runs=0, note="")).goal == "other"
    replaced = await schedules.update("a", "new", every=60)
    assert (replaced.goal, replaced.roles, replaced.note, replaced.max_runs) == ("new", (), "", 0)
    await schedules.delete("a", etag=replaced.etag)
    for call in (schedules.get("a"), schedules.pause("a"), schedules.resume("a"), schedules.trigger("a")):
        with pytest.raises(UnknownSchedule):
            await call


async def test_two_edits_at_once_lose_nothing(schedules: Schedules) -> None:
    first = await schedules.create("a", "look", every=3_600, run=RUN, note="n")
    edits: list[Any] = [{"note": "mine"}, {"cron": "0 2 * * *"}, {"overlap": "allow_all"}, {"run": {"timeout": 5.0}}]
    await asyncio.gather(*(schedules.edit("a", **each) for each in edits), schedules.edit("a", goal="listen"))
    after = await schedules.get("a")
    assert (after.note, after.timing, after.overlap, after.goal) == ("mine", "0 2 * * * (UTC)", "allow_all", "listen")
    assert (after.proto.run.timeout.seconds, after.roles) == (5, ("echo",))
    same = [schedules.edit("a", note=str(number), etag=after.etag) for number in range(3)]
    results = await asyncio.gather(*same, return_exceptions=True)
    assert [type(each) for each in results].count(ScheduleChanged) == 2 and after.etag != first.etag


async def test_a_part_of_the_times_changes_and_the_others_are_cleared(schedules: Schedules) -> None:
    await schedules.create("a", "look", cron="0 2 * * *", time_zone="Europe/Berlin", run=RUN, jitter=60.0)
    moved = await schedules.edit("a", time_zone="Asia/Tokyo")
    assert (moved.timing, moved.time_zone, moved.jitter) == ("0 2 * * * (Asia/Tokyo)", "Asia/Tokyo", 60.0)
    assert (await schedules.edit("a", every=60.0, offset=5.0)).timing == "every 60 s, 5 s later"
    with pytest.raises(InvalidArgument, match="time zone"):
        await schedules.edit("a", time_zone="Asia/Tokyo")
    with pytest.raises(InvalidArgument, match="nothing to change"):
        await schedules.edit("a")
    for path in ("paused", "name", "times.colour", "run.goal"):
        request = pb.UpdateScheduleRequest(schedule=pb.Schedule(name="a", paused=True))
        request.update_mask.paths.append(path)
        with pytest.raises(InvalidArgument):
            await schedules._stub.UpdateSchedule(request, timeout=10)
    unmasked = pb.UpdateScheduleRequest(schedule=pb.Schedule(name="a", note="n"))
    changed = Schedule((await schedules._stub.UpdateSchedule(unmasked, timeout=10)).schedule)
    assert (changed.note, changed.timing, changed.jitter) == ("n", "every 60 s, 5 s later", 60.0)


async def test_the_note_of_an_ended_schedule_can_be_changed(own_mesh: Mesh, schedules: Schedules) -> None:
    await schedules.create("a", "look", at=machine.wall_time() + 1.25, run=RUN)
    await own_mesh.advance(2)
    await reached(schedules, "a", "completed")
    edited = await schedules.edit("a", note="done")
    assert (edited.note, edited.state) == ("done", "ended")
    with pytest.raises(InvalidArgument, match="to come"):
        await schedules.edit("a", at=machine.wall_time() - 5)


@pytest.mark.slow
async def test_a_paused_schedule_fires_when_asked_alone(own_mesh: Mesh, schedules: Schedules) -> None:
    await schedules.create("a", "look", every=10, offset=soon(8), run=RUN)
    paused = await schedules.pause("a", "holidays")
    assert (paused.state, paused.pause_reason, paused.next_times) == ("paused", "holidays", ())
    await own_mesh.advance(20)
    assert await fires_of(schedules, "a") == []
    fire = await schedules.trigger("a", request_id="mine")
    assert (await schedules.trigger("a", request_id="mine")).fire_id == fire.fire_id == "trigger/mine"
    [done] = await reached(schedules, "a", "completed")
    assert done.triggered_by == context.ANONYMOUS
    resumed = await schedules.resume("a")
    assert resumed.state == "active" and (await fires_of(schedules, "a")) == [done], "nothing is made up for"


@pytest.mark.slow
async def test_a_trigger_that_was_skipped_stays_skipped_when_it_is_sent_again(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    await own_mesh.agent("slow", gate=gate)
    schedules = own_mesh.client.schedules
    await schedules.create("a", "look", every=3_600, max_runs=1, run={"roles": ["slow"]})
    await schedules.trigger("a")
    await reached(schedules, "a", "running")
    assert (await schedules.trigger("a", request_id="r")).state == "skipped"
    second = await schedules.trigger("a", overlap="allow_all")
    gate.set()
    await reached(schedules, "a", "completed", "skipped", "completed")
    assert (await schedules.trigger("a", request_id="r")).state == "skipped" and second.state == "starting"
    shown = await schedules.get("a")
    assert (shown.runs, shown.max_runs, shown.ended) == (2, 1, True)


@pytest.mark.slow
async def test_a_backfill_fires_each_time_once(own_mesh: Mesh, schedules: Schedules) -> None:
    await schedules.create("a", "look", every=10, offset=soon(8), run=RUN)
    start = (await schedules.pause("a")).create_time
    await own_mesh.advance(30)
    fires = await schedules.backfill("a", start, start + 30, overlap="allow_all")
    assert len(fires) == 3
    await reached(schedules, "a", *["completed"] * 3)
    assert await schedules.backfill("a", start, start + 30) == [], "each has a run"
    with pytest.raises(InvalidArgument):
        await schedules.backfill("a", start - 10_000_000, start - 9_999_999)
    with pytest.raises(InvalidArgument):
        await schedules.backfill("a", start - 100_000)


@pytest.mark.slow
async def test_a_run_that_is_cancelled_makes_room_for_the_next(own_mesh: Mesh) -> None:
    gate = asyncio.Event()
    await own_mesh.agent("slow", gate=gate)
    schedules = own_mesh.client.schedules
    run: Any = {"roles": ["slow"]}
    await schedules.create("a", "look", every=10, offset=soon(4), run=run, overlap="cancel_other")
    await own_mesh.advance(4)
    [first] = await reached(schedules, "a", "running")
    await own_mesh.advance(7)
    second, cancelled = await reached(schedules, "a", "running", "cancelled")
    assert (cancelled.run_id, second.run_id != first.run_id) == (first.run_id, True)
    gate.set()


@pytest.mark.slow
async def test_a_role_without_an_instance_is_waited_for(own_mesh: Mesh) -> None:
    schedules = own_mesh.client.schedules
    await schedules.create("a", "look", at=machine.wall_time() + 5, run={"roles": ["late"]})
    await own_mesh.advance(6)

    async def refused() -> bool:
        fires = await fires_of(schedules, "a")
        return bool(fires) and isinstance(fires[0].failure, UnknownRole)

    await eventually(refused)
    await own_mesh.agent("late")
    await own_mesh.advance(5)
    [fire] = await reached(schedules, "a", "completed")
    run = await own_mesh.client.get(fire.run_id)
    assert (run.state, run.failure, fire.failure) == ("completed", None, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cron": "* * * * *", "every": 60},
        {"cron": "* * *"},
        {"cron": "* * * * *", "time_zone": "Europe/Berln"},
        {"every": 0.5},
        {"every": 60, "offset": 60},
        {"every": 60, "time_zone": "UTC"},
        {"at": 1_000.0},
        {"every": 60, "end": 1_000.0},
        {"every": 60, "jitter": 86_401},
        {"every": 60, "catch_up_window": 0.5},
        {"every": 60, "max_runs": -1},
        {"every": 60, "overlap": "terminate"},
        {"every": 60, "note": "n" * 5_000},
    ],
)
async def test_a_schedule_that_cannot_be_is_refused(mesh: Mesh, options: Any) -> None:
    with pytest.raises(InvalidArgument):
        await mesh.client.schedules.create("a", "look", **options)


async def test_names_sizes_and_doubles_are_refused(mesh: Mesh) -> None:
    schedules = mesh.client.schedules
    for name in ("", "a b", "../a", "a" * 101, "ä"):
        with pytest.raises(InvalidArgument):
            await schedules.create(name, "look", every=60)
    with pytest.raises(MessageTooLarge):
        await schedules.create("a", "x" * 300_000, every=60)
    with pytest.raises(InvalidArgument):
        await schedules.create("a", "look", every=60, run={"breakpoints": ["model"]})
    first = await schedules.create("double", "look", every=3_600, request_id="r")
    assert await schedules.create("double", "look", every=3_600, request_id="r") == first
    with pytest.raises(AlreadyExists):
        await schedules.create("double", "look", every=3_600)
    await schedules.delete("double")


class Guarded:
    """A mesh whose calls need tokens, with quotas and a policy, and an agent."""

    def __init__(self, folder: Path, keys: TestKeys) -> None:
        self.keys = keys
        quotas = folder / "quotas.yaml"
        quotas.write_text("identities:\n  poor: {runs_per_day: 0}\n")
        self.mesh = InProcessMesh(folder, quotas=str(quotas))

    def client(self, kind: Kind, name: str, token_id: str = "") -> Client:
        credentials = self.keys.credentials(Principal(kind, name, token_id=token_id))
        return Client(self.mesh.orchestrator.address, credentials=credentials)


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    keys = TestKeys(tmp_path)
    for name, value in keys.environment().items():
        monkeypatch.setenv(name, value)
    guarded = Guarded(tmp_path, keys)

    async def work(task: TaskContext) -> str:
        return "done"

    async with guarded.mesh, AgentServer("echo", handler=work, settings=guarded.mesh.agent_settings()):
        yield guarded


async def test_runs_are_those_of_the_owner_by_the_orchestrator(guarded: Guarded) -> None:
    async with guarded.client(Kind.OPERATOR, "ann") as ann:
        added = await ann.schedules.create("a", "look", every=3_600, run=RUN)
        assert added.identity == "ann"
        await ann.schedules.trigger("a")
        [fire] = await reached(ann.schedules, "a", "completed")
        run = await ann.get(fire.run_id)
        assert (run.proto.identity, run.proto.actor) == ("ann", "service:orchestrator")
    async with guarded.client(Kind.OPERATOR, "bob") as bob:
        assert (await bob.schedules.edit("a", note="mine now")).identity == "bob"
    async with guarded.client(Kind.VIEWER, "eve") as eve:
        assert [each.name for each in await eve.schedules.list()] == ["a"]
        with pytest.raises(PermissionDenied):
            await eve.schedules.trigger("a")


async def test_a_revoked_owner_is_refused_and_the_schedule_says_so(guarded: Guarded) -> None:
    async with guarded.client(Kind.OPERATOR, "ann", "t-1") as ann, guarded.client(Kind.ADMIN, "root") as root:
        await ann.schedules.create("a", "look", every=3_600, run=RUN, pause_on_failure=True)
        guarded.keys.write("t-1")

        async def is_revoked() -> bool:
            try:
                await ann.schedules.get("a")
            except TokenRevoked:
                return True
            return False

        await eventually(is_revoked)
        await root.schedules.trigger("a")
        [fire] = await reached(root.schedules, "a", "refused")
        assert isinstance(fire.failure, TokenRevoked)
        shown: Schedule = await root.schedules.get("a")
        assert (shown.state, shown.refused, "revoked" in shown.pause_reason) == ("paused", 1, True)
        await root.schedules.edit("a", note="by root")
        await root.schedules.trigger("a")
        await reached(root.schedules, "a", "completed", "refused")


@pytest.mark.slow
async def test_a_refused_quota_is_tried_again_and_shown(guarded: Guarded) -> None:
    async with guarded.client(Kind.OPERATOR, "poor") as poor:
        await poor.schedules.create("a", "look", every=3_600, run=RUN)
        await poor.schedules.trigger("a")

        async def is_shown() -> bool:
            fires = (await poor.schedules.get("a")).open_fires
            return bool(fires) and isinstance(fires[0].failure, QuotaExceeded)

        await eventually(is_shown)
        [fire] = (await poor.schedules.get("a")).open_fires
        assert fire.state == "starting" and "runs of the day" in fire.reason
        # It is tried again when the quota says, tomorrow, which is within the window.
        assert {"schedule.create", "schedule.trigger"} <= await _actions(guarded)


async def _actions(guarded: Guarded) -> set[str]:
    """Returns the actions in the audit log."""
    credentials = guarded.keys.credentials(Principal(Kind.ADMIN, "root"))
    async with AuditClient(guarded.mesh.orchestrator.address, credentials=credentials) as client:
        return {entry.action for entry in await client.entries()}
