"""The shared tools of a mesh as a table: one row for each tool of a role, over its instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from archon.tools import FoundTool

HEADERS: Final = ("tool", "role", "instances", "success", "latency", "terms")
RIGHT_ALIGNED: Final = (2, 3, 4)
FOLDED: Final = (0, 1)

_UNKNOWN: Final = "-"


@dataclass(frozen=True, slots=True)
class SharedToolRow:
    """A tool that a role shares. `success_rate` (0 to 1) and `mean_latency_ms` are over all instances, None without a
    call; `max_calls_per_minute` is for one lease, 0 if unlimited."""

    name: str
    role: str
    description: str
    instances: tuple[str, ...]
    calls: int
    success_rate: float | None
    mean_latency_ms: float | None
    max_calls_per_minute: int
    idempotent: bool
    destructive: bool


def rows_of(found: Sequence[FoundTool]) -> list[SharedToolRow]:
    """Returns the rows, in the order of the best instance of each tool."""
    groups: dict[tuple[str, str], list[FoundTool]] = {}
    for each in found:
        groups.setdefault((each.name, each.role), []).append(each)
    return [_row(group) for group in groups.values()]


def cells_of(row: SharedToolRow) -> list[str]:
    """Returns the cells of a row, in the order of HEADERS."""
    per_minute = f"{row.max_calls_per_minute:,}/min" if row.max_calls_per_minute else "no limit"
    return [
        row.name,
        row.role,
        f"{len(row.instances):,}",
        _UNKNOWN if row.success_rate is None else f"{row.success_rate:.0%}",
        _UNKNOWN if row.mean_latency_ms is None else f"{row.mean_latency_ms:,.1f} ms",
        per_minute,
    ]


def _row(group: Sequence[FoundTool]) -> SharedToolRow:
    best = group[0]
    shares = [each.share for each in group]
    calls = sum(share.calls for share in shares)
    rate = sum(share.calls * share.success_rate for share in shares) / calls if calls else None
    latency = sum(share.calls * share.mean_latency for share in shares) / calls if calls else None
    return SharedToolRow(
        best.name,
        best.role,
        best.tool.description,
        tuple(sorted(each.instance_id for each in group)),
        calls,
        None if rate is None else round(rate, 4),
        None if latency is None else round(latency * 1000, 3),
        best.share.max_calls_per_minute,
        best.tool.idempotent,
        best.tool.destructive,
    )
