"""Options of commands that say when a schedule fires, and its policies."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.when import later, seconds_of, time_of

if TYPE_CHECKING:
    from archon.schedules import ScheduleOptions


class OverlapName(StrEnum):
    """The overlap policies."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    ALLOW_ALL = "allow_all"


class CatchUpName(StrEnum):
    """The policies about times that have passed."""

    LATEST = "latest"
    ALL = "all"
    SKIP = "skip"


CronOption = Annotated[
    str, typer.Option(metavar="EXPR", help="Five fields (minute, hour, day, month, day of the week), or @daily etc.")
]
ZoneOption = Annotated[
    str, typer.Option("--tz", metavar="ZONE", help="The time zone of --cron, such as Europe/Berlin; by default UTC.")
]
EveryOption = Annotated[
    str, typer.Option(metavar="TIME", help="An interval: 90s, 30m, 2h or 7d, counted from 1970-01-01 in UTC.")
]
OffsetOption = Annotated[str, typer.Option(metavar="TIME", help="Added to each time of --every; below it.")]
AtOption = Annotated[str, typer.Option(metavar="TIME", help="Once, at this time: 2026-01-31T12:00.")]
InOption = Annotated[str, typer.Option("--in", metavar="TIME", help="Once, after this time: 90s, 30m, 2h or 7d.")]
StartOption = Annotated[str, typer.Option(metavar="TIME", help="No time before: 2026-01-31T12:00.")]
EndOption = Annotated[str, typer.Option(metavar="TIME", help="No time after.")]
JitterOption = Annotated[str, typer.Option(metavar="TIME", help="Delay each time by a part of this, at most 1d.")]
MaxRunsOption = Annotated[
    int | None, typer.Option(min=0, max=10**12, metavar="N", help="End after so many runs; 0: no limit.")
]
OverlapOption = Annotated[
    OverlapName | None,
    typer.Option(
        help="While a run is in progress: skip the fire (the default), let one or all wait, cancel the run, or allow."
    ),
]
CatchUpOption = Annotated[
    CatchUpName | None,
    typer.Option(help="Of times that passed without an orchestrator fire the latest (the default), all, or none."),
]
WindowOption = Annotated[
    str, typer.Option("--catch-up-window", metavar="TIME", help="How late a time may fire; by default 1d.")
]
PauseOption = Annotated[
    bool | None, typer.Option("--pause-on-failure/--no-pause-on-failure", help="Whether a failed run pauses it.")
]
NoteOption = Annotated[str | None, typer.Option(metavar="TEXT", help="A note for people.")]


def schedule_options(
    *,
    cron: str,
    tz: str,
    every: str,
    offset: str,
    at: str,
    in_: str,
    start: str,
    end: str,
    jitter: str,
    max_runs: int | None,
    overlap: OverlapName | None,
    catch_up: CatchUpName | None,
    window: str,
    pause_on_failure: bool | None,
    note: str | None,
    needed: bool,
) -> ScheduleOptions:
    """Returns the options that are given. `needed`: whether one of --cron, --every, --at and --in must be; an edit may
    give --tz or --offset alone. Raises CliError."""
    given = [name for name, text in (("--cron", cron), ("--every", every), ("--at", at), ("--in", in_)) if text]
    if len(given) > 1:
        raise CliError(f"{' and '.join(given)} exclude each other", code=USAGE)
    if needed and not given:
        raise CliError("one of --cron, --every, --at and --in says when", code=USAGE)
    if tz and not cron and (needed or given):
        raise CliError("--tz is the time zone of --cron", code=USAGE)
    if offset and not every and (needed or given):
        raise CliError("--offset is added to --every", code=USAGE)
    found: dict[str, Any] = {
        "cron": cron or None,
        "time_zone": tz or None,
        "every": seconds_of(every, "--every") if every else None,
        "offset": seconds_of(offset, "--offset") if offset else None,
        "at": later(at, in_),
        "start": time_of(start, "--start") if start else None,
        "end": time_of(end, "--end") if end else None,
        "jitter": seconds_of(jitter, "--jitter") if jitter else None,
        "max_runs": max_runs,
        "overlap": overlap.value if overlap is not None else None,
        "catch_up": catch_up.value if catch_up is not None else None,
        "catch_up_window": seconds_of(window, "--catch-up-window") if window else None,
        "pause_on_failure": pause_on_failure,
        "note": note,
    }
    options: Any = {name: value for name, value in found.items() if value is not None}
    return options  # type: ignore[no-any-return]
