"""The result of a replay: as text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from archon.plain_text import counted
from archon_services.cli.render.output import print_table
from archon_services.cli.render.verified import run_sentence
from archon_services.cli.wrapping import wrapped
from archon_services.reports.texts import one_line, strip_controls

if TYPE_CHECKING:
    from archon.history import RunReport
    from archon_services.replay import Difference, FieldDifference, Recording, RunAgain

MAX_DIFFERENCES: Final = 10
"""Differences that the text has; the JSON has all."""

_VALUE: Final = 160
"""Characters of a value."""


def print_decided(report: RunReport, recording: Recording, *, has_keys: bool) -> None:
    """Prints the findings of the verification and the engine."""
    print(wrapped(run_sentence(report, has_keys=has_keys)))
    difference = recording.difference
    if difference is None:
        left = f"; {counted(recording.undecided, 'event')} without inputs folded" if recording.undecided else ""
        same = counted(len(recording.events) - recording.undecided, "event")
        print(wrapped(f"decided again: {counted(recording.inputs, 'input')} give the same {same}{left}"))
        return
    print(wrapped(f"decided again: event {difference.seq} differs: {_sentence(difference)}"))
    _print_fields(difference.fields)


def print_run_again(again: RunAgain | None, reason: str) -> None:
    """Prints how the run went again, and who took part."""
    if again is None:
        print(wrapped(f"not run again: {reason}"))
        return
    compared = again.comparison
    parts = [counted(compared.events, "event"), counted(compared.tasks, "task"), counted(compared.answers, "answer")]
    said = f"{parts[0]} of {parts[1]} are the same, and {parts[2]} bit for bit"
    title = "run again" if again.live else "run again from the file"
    if again.same:
        print(wrapped(f"{title}: {said}"))
    else:
        count = counted(len(compared.differences), "task")
        print(wrapped(f"{title}: {count} went otherwise; {said}"))
    if again.stops:
        print(wrapped(f"played up to event {again.end}: {again.stops}"))
    for task, difference in compared.differences[:MAX_DIFFERENCES]:
        place = f"event {difference.seq}" if difference.seq else "a new event"
        print(wrapped(strip_controls(f"{place}, {task or 'the run'}: {_sentence(difference)}")))
        _print_fields(difference.fields)
    if len(compared.differences) > MAX_DIFFERENCES:
        print(f"and {len(compared.differences) - MAX_DIFFERENCES} more")
    if again.played.contexts:
        other = again.played.contexts[0]
        print(
            wrapped(
                strip_controls(
                    f"{other.task}, attempt {other.attempt}, was answered from the file, and was sent something else "
                    f"than in the recording, as the first of {len(again.played.contexts)}:"
                )
            )
        )
        _print_fields(other.fields)
    for unknown in again.played.unknown:
        print(wrapped(strip_controls(f"not in the recording: {unknown}")))
    for late in again.played.late:
        print(wrapped(strip_controls(f"did not come again in time: {late}")))
    _print_ledger(again)


def replay_document(report: RunReport, recording: Recording, again: RunAgain | None, reason: str) -> dict[str, Any]:
    """Returns the JSON form of a replay."""
    difference = recording.difference
    values: dict[str, Any] = {
        "run_id": recording.run_id,
        "proven": report.proven,
        "decided": {
            "same": difference is None,
            "events": len(recording.events),
            "inputs": recording.inputs,
            "undecided": recording.undecided,
            "difference": asdict(difference) if difference is not None else None,
        },
        "run_again": None,
        "not_run_again": reason,
    }
    if again is not None:
        values["run_again"] = {
            "same": again.same,
            "end": again.end,
            "stops": again.stops,
            "events": again.comparison.events,
            "tasks": again.comparison.tasks,
            "answers": again.comparison.answers,
            "differences": [{"task": task, **asdict(found)} for task, found in again.comparison.differences],
            "other_contexts": [asdict(other) for other in again.played.contexts],
            "unknown": again.played.unknown,
            "late": again.played.late,
            "ledger": [
                {"role": role, "live": count_live, "from_file": count} for role, count, count_live in _ledger(again)
            ],
        }
    return values


def _sentence(difference: Difference) -> str:
    kinds = (
        difference.recorded if difference.recorded == difference.now else f"{difference.recorded} / {difference.now}"
    )
    cause = f" (decided from {difference.cause})" if difference.cause else ""
    return f"{kinds}: {difference.reason}{cause}"


def _print_fields(fields: tuple[FieldDifference, ...]) -> None:
    for field in fields:
        print(strip_controls(f"  {field.path}"))
        print(wrapped(strip_controls(f"    recorded  {one_line(field.recorded, _VALUE)}"), hang=" " * 14))
        print(wrapped(strip_controls(f"    now       {one_line(field.now, _VALUE)}"), hang=" " * 14))


def _ledger(again: RunAgain) -> Iterator[tuple[str, int, int]]:
    """Yields (role, attempts from the file, live attempts)."""
    ledger = again.played.ledger
    for role in sorted({role for role, _ in ledger}):
        yield role, ledger.get((role, False), 0), ledger.get((role, True), 0)


def _print_ledger(again: RunAgain) -> None:
    print()
    rows = [(role, str(count or "-"), str(live or "-")) for role, count, live in _ledger(again)]
    print_table(("role", "from the file", "live"), rows, right=(1, 2))
