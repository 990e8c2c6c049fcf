"""The explanation of a run as lines: a paragraph, the evidence, or the record."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from archon.plain_text import iso_time
from archon_mesh.explain import Audience, Explanation, Wording
from archon_mesh.explain.explanation import confidence_text
from archon_services.reports.texts import strip_controls

WIDTH: Final = 80
MAX_SEQS: Final = 6
"""Events that are named for a fact; `--json` has all."""

_EXPIRED: Final = "The details of the run were removed by retention: this is what is left of it."


def explanation_lines(explanation: Explanation, audience: Audience, wording: Wording | None) -> Iterator[str]:
    """Yields the lines of an explanation for an audience; the wording of a model comes first, if there is one."""
    if wording is not None:
        yield from _wrapped(wording.text)
        yield ""
        yield from _wrapped(wording.note())
        yield ""
    if explanation.expired:
        yield from _wrapped(_EXPIRED)
    if audience is Audience.USER:
        yield from _wrapped(explanation.paragraph())
        return
    yield from _wrapped(f"Run {explanation.run_id}", "")
    yield from _wrapped(explanation.conclusion)
    yield from _wrapped(confidence_text(explanation.confidence))
    yield ""
    if audience is Audience.AUDITOR:
        yield from _record_lines(explanation)
        return
    yield "Evidence, with the numbers of the events:"
    for fact in explanation.facts:
        yield from _wrapped(f"{fact.text}{_seqs(fact.seqs)}", f"  {fact.kind:<11}", " " * 13)


def _record_lines(explanation: Explanation) -> Iterator[str]:
    """Yields the record: the day where it changes, and for each event number, time, subject and sentence."""
    day = ""
    digits = len(str(explanation.record[-1].seq)) if explanation.record else 1
    for line in explanation.record:
        date, _, clock = iso_time(line.time).partition("T")
        if date != day:
            yield f"{date} (UTC)"
            day = date
        head = f"{line.seq:>{digits}}  {clock.removesuffix('Z')}  "
        yield from _wrapped(f"{line.subject}: {line.text}", head, " " * len(head))


def _seqs(seqs: tuple[int, ...]) -> str:
    if not seqs:
        return ""
    more = ", ..." if len(seqs) > MAX_SEQS else ""
    return f" [{', '.join(map(str, seqs[:MAX_SEQS]))}{more}]"


def _wrapped(text: str, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        " ".join(strip_controls(text).split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
