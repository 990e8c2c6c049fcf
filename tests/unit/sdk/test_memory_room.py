"""When memory is short: by the files of control groups, and after a failed allocation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from archon.errors import ResourceExhausted
from archon.failure_kinds import ErrorSeverity
from archon.memory_room import MAX_AGE, SHORTAGE, MemoryRoom, oom_kills
from archon.status import as_error, from_failure, to_failure
from tests.fixtures.memory_group import memory_group

FILES: dict[int | str, tuple[str, ...]] = {
    1: ("4:memory:/a/b\n0::/\n", "memory/a", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("0::/a/b\n", "a", "memory.max", "memory.current", "inactive_file"),
    "2 beside 1": ("1:cpu:/\n0::/a/b\n", "unified/a", "memory.max", "memory.current", "inactive_file"),
}


class Machine:
    """The files of one control group, whose limit is 1,000 bytes, above that of the process."""

    def __init__(self, root: Path, version: int | str) -> None:
        cgroup, folder, self.limit, self.usage, self.droppable = FILES[version]
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/cgroup").write_text(cgroup)
        self.group = root / "sys/fs/cgroup" / folder
        self.group.mkdir(parents=True)
        (self.group / self.limit).write_text("1000\n")
        self.now = 0.0
        self.use(0)
        self.room = MemoryRoom(root, lambda: self.now)

    def use(self, used: int, droppable: int = 0) -> None:
        (self.group / self.usage).write_text(f"{used}\n")
        (self.group / "memory.stat").write_text(f"file 7\n{self.droppable} {droppable}\n")
        self.now += MAX_AGE


@pytest.fixture(params=FILES)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    return Machine(tmp_path, request.param)


def test_memory_is_short_from_95_percent_of_the_limit_until_below_90(machine: Machine) -> None:
    short = []
    for used in (0, 949, 950, 901, 900, 899, 949):
        machine.use(used)
        short.append(machine.room.short)
    assert short == [False, False, True, True, True, False, False]


def test_files_in_the_cache_do_not_count(machine: Machine) -> None:
    machine.use(1000, droppable=100)
    assert not machine.room.short
    machine.use(1000, droppable=50)
    assert machine.room.short


def test_a_reading_holds_for_half_a_second(machine: Machine) -> None:
    assert not machine.room.short
    machine.use(1000)
    machine.now -= 0.01
    assert not machine.room.short
    machine.now += 0.01
    assert machine.room.short


@pytest.mark.parametrize("limit", ["max", "9223372036854771712", "0", "", "x"])
def test_a_group_without_a_limit_is_never_short(machine: Machine, limit: str) -> None:
    (machine.group / machine.limit).write_text(limit)
    machine.use(10**18)
    assert not machine.room.short


def test_files_that_cannot_be_read_are_no_shortage(machine: Machine) -> None:
    (machine.group / "memory.stat").unlink()
    (machine.group / machine.usage).write_text("1000")
    assert not machine.room.short


def test_a_failed_allocation_is_a_shortage_for_some_seconds(tmp_path: Path) -> None:
    now = [0.0]
    room = MemoryRoom(tmp_path, lambda: now[0])
    room.check("this")
    room.note_shortage()
    with pytest.raises(ResourceExhausted, match=r"^this is short of memory$") as raised:
        room.check("this")
    assert (raised.value.kind, raised.value.retry_delay) == ("infrastructure.out_of_memory", 1.0)
    now[0] = SHORTAGE
    room.check("this")


def test_a_failed_allocation_has_its_kind() -> None:
    error = from_failure(to_failure(as_error(MemoryError())))
    assert (type(error), error.kind, error.severity) == (
        ResourceExhausted,
        "infrastructure.out_of_memory",
        ErrorSeverity.CRITICAL,
    )


ALLOCATES = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
from archon.memory_room import MemoryRoom
now = [0.0]
room = MemoryRoom(monotonic=lambda: now[0])
print(room.short)
held = []
while not room.short:
    held.append(bytes([1]) * 1_000_000)
    now[0] += 1
del held
now[0] += 1
print(room.short)
"""


def test_a_process_sees_the_limit_of_its_control_group() -> None:
    with memory_group(64_000_000) as group:
        done = subprocess.run(
            [sys.executable, "-c", ALLOCATES, str(group)], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (0, "False\nFalse\n"), done.stderr


EXHAUSTS = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
held = []
while True:
    held.append(bytes([1]) * 1_000_000)
"""


def test_a_process_that_the_kernel_kills_for_memory_is_counted() -> None:
    before = oom_kills()
    with memory_group(32_000_000) as group:
        done = subprocess.run([sys.executable, "-c", EXHAUSTS, str(group)], capture_output=True, check=False)
    assert done.returncode == -9
    assert oom_kills() > before
