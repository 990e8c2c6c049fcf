"""The clock of a run: it goes on where it was in the same boot, and never makes a wait longer than it was meant."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from archon_mesh.engine import RunState
from archon_mesh.engine.types import ClockOrigin
from archon_services.common import machine as machine_clock
from archon_services.orchestrator.ports import SystemClock
from archon_services.orchestrator.runs.clock.clocks import JournalClock
from archon_services.orchestrator.runs.clock.run_ids import RunIds

DAY = 86_400.0


class Machine:
    """The clocks of a machine, moved by hand, and the journal on it."""

    shared = False

    def __init__(self) -> None:
        self.wall, self.up, self.server = 1e9, 100.0, 2e9

    async def now(self) -> float:
        return self.server if self.shared else self.wall

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds
        self.server += seconds


class Server(Machine):
    """A machine whose journal is in a database with a clock of its own."""

    shared = True


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield from patched(Machine(), monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    yield from patched(Server(), monkeypatch)


def patched(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with monkeypatch.context() as patch:
        patch.setattr(machine_clock, "wall_time", lambda: machine.wall)
        patch.setattr(time, "monotonic", lambda: machine.up)
        yield machine


def run_of(clock: SystemClock, journal_clock: JournalClock) -> RunState:
    return RunState(latest_time=clock.now(), origin=journal_clock.origin_of(clock))


def test_durability_31_new_runs_get_the_wall_time_after_a_suspend(machine: Machine) -> None:
    clock = JournalClock(machine, boot="b")
    running = SystemClock(clock.now())
    machine.wall += 8 * 3600
    assert clock.now() == 1e9 + 8 * 3600
    assert running.now() == 1e9, "a run under way counts no time in which nothing ran"


@pytest.mark.parametrize("jump", [-10 * DAY, 10 * DAY])
async def test_durability_31_a_restart_in_the_same_boot_ignores_the_wall(machine: Machine, jump: float) -> None:
    before = JournalClock(machine, boot="b")
    run = run_of(SystemClock(before.now()), before)
    machine.wall += jump
    machine.pass_time(2.0)
    after = JournalClock(machine, boot="b")
    clock = await after.continued(run)
    assert clock.now() == 1e9 + 2.0
    assert after.origin_of(clock) == run.origin, "the next process continues it as well"


async def test_durability_31_a_wait_is_not_longer_after_the_clock_was_set_back(machine: Machine) -> None:
    before = JournalClock(machine, boot="b")
    run = run_of(SystemClock(before.now()), before)
    machine.wall -= 10 * DAY
    clock = await JournalClock(machine, boot="another").continued(run)
    assert clock.now() == run.latest_time
    machine.pass_time(3.0)
    assert clock.now() == run.latest_time + 3.0


async def test_durability_31_time_without_a_process_counts_across_boots(machine: Machine) -> None:
    before = JournalClock(machine, boot="b")
    run = run_of(SystemClock(before.now()), before)
    machine.pass_time(60.0)
    machine.up = 1.0
    assert (await JournalClock(machine, boot="another").continued(run)).now() == 1e9 + 60.0


async def test_durability_31_a_run_without_an_origin_continues_by_the_wall(machine: Machine) -> None:
    machine.pass_time(60.0)
    assert (await JournalClock(machine, boot="").continued(RunState(latest_time=1e9))).now() == 1e9 + 60.0
    unknown = RunState(latest_time=1e9, origin=ClockOrigin())
    assert (await JournalClock(machine, boot="").continued(unknown)).now() == 1e9 + 60.0


@pytest.mark.parametrize("jump", [-10 * DAY, 10 * DAY])
async def test_durability_31_a_replica_that_saw_a_jump_does_not_count_it(server: Machine, jump: float) -> None:
    clock = JournalClock(server, boot="here")
    await clock.read()
    run = RunState(latest_time=clock.now(), origin=ClockOrigin("elsewhere", 5.0))
    server.pass_time(20.0)
    server.server += jump
    await clock.read()
    assert (await clock.continued(run)).now() == 2e9 + 20.0
    begun_since = RunState(latest_time=clock.now(), origin=ClockOrigin("elsewhere", 5.0))
    server.pass_time(7.0)
    assert (await clock.continued(begun_since)).now() == 2e9 + 27.0 + jump


async def test_a_shared_journal_tells_its_own_time(server: Machine) -> None:
    clock = JournalClock(server, boot="here")
    await clock.read()
    server.wall += 3600.0
    assert clock.now() == 2e9
    server.pass_time(1.0)
    assert clock.now() == 2e9 + 1.0


def test_ids_grow_across_a_restart_with_an_earlier_clock(machine: Machine) -> None:
    last = RunIds(machine_clock.wall_time).next()
    machine.wall -= 10 * DAY
    ids = RunIds(machine_clock.wall_time, after=last)
    assert last < ids.next() < ids.next()


@pytest.mark.parametrize("after", ["", "r1", "f" * 32, "0" * 31])
def test_ids_after_one_of_another_form_begin_with_the_clock(machine: Machine, after: str) -> None:
    assert RunIds(machine_clock.wall_time, after=after).next()[:12] == f"{int(1e12):012x}"
