"""Whether a process has room in memory: the use of its control group, against the limit of the group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from archon.clock import monotonic
from archon.errors import ResourceExhausted
from archon.failure_kinds import OUT_OF_MEMORY

HIGH: Final = 0.95
"""Part of the limit from which on memory is short."""

LOW: Final = 0.90
"""Part of the limit below which it is no longer short."""

MAX_AGE: Final = 0.5
"""Seconds for which a reading holds."""

SHORTAGE: Final = 5.0
"""Seconds for which memory is short after an allocation has failed."""

_UNLIMITED: Final = 1 << 60  # control groups of version 1 have no word for it


class MemoryRoom:
    """Tells whether the memory of this process is short: its control group, or one above it, uses HIGH of its limit or
    more, and has not fallen below LOW since. Files that the kernel can drop from its cache do not count, as in the
    working set of Kubernetes. Without a control group that has a limit, memory is short only after `note_shortage`.

    `root` is the root of the file system, `monotonic` returns seconds.
    """

    def __init__(self, root: Path = Path("/"), monotonic: Callable[[], float] = monotonic) -> None:
        self._groups = list(_groups(root))
        self._monotonic = monotonic
        self._read_at = self._short_until = float("-inf")
        self._short = False

    @property
    def short(self) -> bool:
        """Whether memory is short now, or was MAX_AGE seconds ago."""
        if self.recovers:
            return True
        now = self._monotonic()
        if self._groups and now - self._read_at >= MAX_AGE:
            self._read_at = now
            self._short = max(map(_used, self._groups)) >= (LOW if self._short else HIGH)
        return self._short

    @property
    def recovers(self) -> bool:
        """Whether an allocation has failed within the last SHORTAGE seconds."""
        return self._monotonic() < self._short_until

    def note_shortage(self) -> None:
        """Notes that an allocation has failed."""
        self._short_until = self._monotonic() + SHORTAGE

    def check(self, subject: str) -> None:
        """Raises ResourceExhausted, of the kind `infrastructure.out_of_memory`, if memory is short. `subject` names the
        refusing part, such as "the orchestrator"."""
        if self.short:
            raise ResourceExhausted(f"{subject} is short of memory", kind=OUT_OF_MEMORY, retry_delay=1.0)


def oom_kills() -> int:
    """Returns how many processes the kernel has killed since the boot because memory ran out; 0 if it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class _Group:
    """The files of a control group."""

    def __init__(self, folder: Path, limit: str, usage: str, droppable: str) -> None:
        self.limit, self.usage, self.stat = folder / limit, folder / usage, folder / "memory.stat"
        self.droppable = f"{droppable} "


def _groups(root: Path) -> Iterator[_Group]:
    """Finds the control groups that this process is in, versions 1 and 2, with those above them."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
            if (top / "unified").is_dir():  # beside version 1
                top /= "unified"
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        folder = top / path.lstrip("/")
        # A container may see the path of its host, while its own group is at the top.
        for place in (folder, *folder.parents):
            if (place / names[0]).exists():
                yield _Group(place, *names)
            if place == top:
                break


def _used(group: _Group) -> float:
    """Returns the used part of the limit of a control group, 0 if it has none or cannot be read."""
    try:
        limit = group.limit.read_text().strip()
        if limit == "max" or not 0 < int(limit) < _UNLIMITED:
            return 0.0
        used = int(group.usage.read_text())
        lines = group.stat.read_text().splitlines()
    except (OSError, ValueError):
        return 0.0
    droppable = next((int(line.split()[1]) for line in lines if line.startswith(group.droppable)), 0)
    return max(0, used - droppable) / int(limit)
