"""The answers of the playground beside the recorded one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Final

from archon.plain_text import counted, duration
from archon_mesh.run_diff import PieceKind
from archon_services.cli.wrapping import wrapped
from archon_services.reports.run_diff import marked_inline
from archon_services.reports.texts import cost_text, strip_controls

if TYPE_CHECKING:
    from archon_mesh.llm import ModelReply
    from archon_mesh.playground import Played, Trial

WIDTH: Final = 78
"""Columns of the lines of answers."""

MAX_LINES: Final = 40
"""Lines of an answer that are shown; --json has all."""

MAX_CHANGES: Final = 10
NOTHING: Final = "-"

Measure = Callable[["ModelReply", float], float]


def print_played(played: Played, *, dry_run: bool = False) -> None:
    """Prints the changes of the prompt, the measures of the answers beside the recorded one, and each answer as its
    difference from that."""
    for line in played_lines(played, dry_run=dry_run):
        print(strip_controls(line))


def played_lines(played: Played, *, dry_run: bool = False) -> Iterator[str]:
    """Yields the lines of `print_played`."""
    yield from _head(played)
    yield from _changes(played)
    if dry_run:
        yield from _estimated(played)
        return
    yield ""
    yield from _measures(played)
    for number, trial in enumerate(played.trials, 1):
        yield ""
        yield from _answer(played, trial, number)
    if played.stopped:
        yield ""
        yield wrapped(f"Stopped after {counted(len(played.trials), 'answer')}: {played.stopped}")
    if played.max_cost_usd is not None and not played.has_price:
        yield ""
        yield wrapped(
            f"{played.variant.model} has no price: its calls count as free of charge (ARCHON_PRICES names one)."
        )


def _head(played: Played) -> Iterator[str]:
    recorded = played.recorded
    if recorded is None:
        yield f"model {played.variant.model}"
        return
    other = "" if played.variant.model == recorded.model else f", now {played.variant.model}"
    yield wrapped(f"{recorded.label}: model {recorded.model}{other}")


def _changes(played: Played) -> Iterator[str]:
    changes = played.variant.changes()
    if not changes:
        yield "The prompt is as it was recorded."
    for change in changes[:MAX_CHANGES]:
        yield f"changed: {change.place}"
        yield from _indented(marked_inline(change.pieces))
    if len(changes) > MAX_CHANGES:
        yield f"and {counted(len(changes) - MAX_CHANGES, 'more change')} (--json has all)"


def _estimated(played: Played) -> Iterator[str]:
    from archon_mesh.playground.played import estimate_cost, model_of

    client = model_of(played.variant, played.recorded)
    tokens, cost = estimate_cost(played.variant, client)
    priced = cost_text(cost) or "no price is known"
    yield f"Nothing was sent. A call has up to ~{tokens:,} tokens: {priced}."


def _measures(played: Played) -> Iterator[str]:
    """Yields a table of the recorded answer, the mean of the new ones and their range."""
    reply, recorded = played.recorded_reply, played.recorded
    trials = [(trial.reply, trial.seconds) for trial in played.answered if trial.reply is not None]
    before = (reply, recorded.record.duration) if reply is not None and recorded is not None else None
    count = len(trials)
    rows = [("", "recorded", "now" if count < 2 else f"mean of {count}", "" if count < 2 else "from to")]
    measures: Sequence[tuple[str, Measure, Callable[[float], str]]] = (
        ("words", lambda each, _: len(each.text.split()), _whole),
        ("tokens in", lambda each, _: each.usage.input_tokens, _whole),
        ("cached", lambda each, _: each.usage.cached_input_tokens, _whole),
        ("tokens out", lambda each, _: each.usage.output_tokens, _whole),
        ("cost", lambda each, _: each.usage.cost_micro_usd, lambda cost: cost_text(round(cost)) or "$0"),
        ("time", lambda _, seconds: seconds, duration),
    )
    for name, measure, shown in measures:
        values = [measure(each, seconds) for each, seconds in trials]
        old = measure(*before) if before is not None else None
        if name in ("cached", "cost") and not any(values) and not old:
            continue
        mean = shown(fmean(values)) if values else NOTHING
        span = f"{shown(min(values))} to {shown(max(values))}" if count > 1 else ""
        rows.append((name, NOTHING if old is None else shown(old), mean, span))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for name, first, second, span in rows:
        yield f"{name:<{widths[0]}}  {first:>{widths[1]}}  {second:>{widths[2]}}  {span}".rstrip()


def _answer(played: Played, trial: Trial, number: int) -> Iterator[str]:
    pieces = played.difference(trial)
    if trial.error is not None:
        yield wrapped(f"answer {number}: failed: {trial.error.message}")
    elif pieces is None:
        yield f"answer {number}:"
        yield from _indented(trial.text)
    elif all(piece.kind is PieceKind.SAME for piece in pieces):
        yield f"answer {number}: as it was recorded"
    else:
        yield f"answer {number}, [-recorded-] {{+now+}}:"
        yield from _indented(marked_inline(pieces))


def _indented(text: str) -> Iterator[str]:
    lines = [
        each
        for line in text.split("\n")
        for each in textwrap.wrap(strip_controls(line).expandtabs(4), WIDTH - 2, break_on_hyphens=False) or [""]
    ]
    for line in lines[:MAX_LINES]:
        yield f"  {line}".rstrip()
    if len(lines) > MAX_LINES:
        yield f"  and {counted(len(lines) - MAX_LINES, 'more line')} (--json has all)"


def _whole(value: float) -> str:
    return f"{value:,.0f}"
