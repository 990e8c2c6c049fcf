"""Renders the sources of an answer: as a tree of lines, as JSON, as a drawing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from archon.lineage import Provenance, QuotedSource, Source, SourceKind
from archon.plain_text import counted
from archon_services.reports.texts import one_line

WIDTH: Final = 80
"""Characters of a line."""

MAX_INDENT: Final = 32
"""Characters of indentation; deeper sources are shown at this one."""

MAX_TEXT: Final = 400
"""Characters of a source's text in JSON."""

_UNREAD: Final = ", delivered and not used"

_CALLS: Final = (SourceKind.MODEL, SourceKind.TOOL)

_LIGHT: Final = {
    "answer": ("#eef2ff", "#4f46e5"),
    "goal": ("#dcfce7", "#15803d"),
    "outside": ("#fef9c3", "#a16207"),
    "call": ("#f1f5f9", "#64748b"),
    "person": ("#fce7f3", "#be185d"),
}
_DARK: Final = {
    "answer": ("#1e1b4b", "#818cf8"),
    "goal": ("#052e16", "#4ade80"),
    "outside": ("#422006", "#facc15"),
    "call": ("#1f2937", "#94a3b8"),
    "person": ("#500724", "#f472b6"),
}
_CLASSES: Final = {
    SourceKind.ANSWER: "answer",
    SourceKind.GOAL: "goal",
    SourceKind.INPUT: "goal",
    SourceKind.MEMORY: "outside",
    SourceKind.RUN: "outside",
    SourceKind.PERSON: "person",
    SourceKind.EDIT: "person",
}


def _colours(palette: dict[str, tuple[str, str]], text: str, back: str) -> str:
    rules = [f".graph .{name}{{fill:{fill};stroke:{stroke}}}" for name, (fill, stroke) in palette.items()]
    return "".join([*rules, f".graph text{{fill:{text}}}.graph .back{{fill:{back}}}"])


_STYLE: Final = (
    ".graph text{font:14px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;text-anchor:middle}"
    ".graph rect{stroke-width:1.5}.graph .back{stroke:none}"
    ".graph .edge{fill:none;stroke:#64748b;stroke-width:1.5}"
    + _colours(_LIGHT, "#1f2937", "#ffffff")
    + "@media (prefers-color-scheme: dark){"
    + _colours(_DARK, "#e5e7eb", "#0d1117")
    + "}"
)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A line of the tree of sources. `depth` counts from the answer, 0; `how` says how the source above used it, if
    both are answers. `again`: its own sources are below an earlier row. Calls of one model or tool are one row, with
    their number in `calls`."""

    source: Source
    depth: int
    how: str = ""
    again: bool = False
    calls: int = 0

    @property
    def text(self) -> str:
        """The row in words."""
        if self.calls:
            return f"{self.source.kind} {self.source.label}, {counted(self.calls, 'call')}"
        clause = f"{self.how}: " if self.how and self.source.kind is SourceKind.ANSWER else ""
        return f"{clause}{_line(self.source)}{' (above)' if self.again else ''}"


def provenance_rows(found: Provenance) -> Iterator[SourceRow]:
    """Yields an answer and below each source its own sources, each once in full."""
    sources = {source.id: source for source in found.sources}
    below: dict[str, list[tuple[str, str]]] = {}
    for link in found.links:
        below.setdefault(link.of, []).append((link.on, link.how))
    shown: set[str] = set()
    waiting = [(found.answer.id, "", 0)]
    while waiting:
        id_, how, depth = waiting.pop()
        yield SourceRow(sources[id_], depth, how, id_ in shown and bool(below.get(id_)))
        if id_ in shown:
            continue
        shown.add(id_)
        calls = [sources[on] for on, _ in below.get(id_, []) if sources[on].kind in _CALLS]
        for _, group in groupby(calls, lambda call: (call.kind, call.label)):
            first, *more = group
            yield SourceRow(first, depth + 1, calls=1 + len(more))
        rest = [(on, how) for on, how in below.get(id_, []) if sources[on].kind not in _CALLS]
        waiting += [(on, how, depth + 1) for on, how in reversed(rest)]


def unread_texts(found: Provenance) -> list[str]:
    """Returns the sources that were delivered and not used, in clauses such as `by writer: version 2 of designer`."""
    sources = {source.id: source for source in found.sources}
    return [f"by {sources[link.of].label}: {link.how.removesuffix(_UNREAD)}" for link in found.unread]


def provenance_lines(found: Provenance) -> Iterator[str]:
    """Yields the rows of the tree as lines; then the sources that were not used."""
    for row in provenance_rows(found):
        yield one_line(f"{' ' * min(2 * row.depth, MAX_INDENT)}{row.text}", WIDTH, indent=True)
    if found.unread:
        yield ""
        yield "Delivered, and not used:"
        for text in unread_texts(found):
            yield one_line(f"  {text}", WIDTH, indent=True)


def _line(source: Source) -> str:
    place = f", event {source.seq:,}" if source.seq and source.kind not in (SourceKind.GOAL, SourceKind.RUN) else ""
    detail = f", {source.detail}" if source.detail else ""
    match source.kind:
        case SourceKind.ANSWER:
            return f"{source.label}{place}{detail}"
        case SourceKind.GOAL:
            return f"the goal: {source.text}"
        case SourceKind.INPUT:
            return f"an input of its own: {source.text}"
        case SourceKind.REQUEST:
            return f"request of {source.label}{place}: {source.text}"
        case SourceKind.MEMORY:
            return f"memory: {source.label}, version {source.version}{f' of {source.scope}' if source.scope else ''}"
        case SourceKind.RUN:
            return f"{source.label}, event {source.seq:,} of run {source.run_id}"
        case SourceKind.MESSAGE:
            return f"message of {source.label}{place}: {source.text}"
        case SourceKind.PERSON:
            return f"{source.label} said{place}: {source.text}{detail}"
        case SourceKind.EDIT:
            return f"{source.label} gave this answer{detail}"
    return f"{source.kind} {source.label}{detail}"


def quoted_lines(found: Provenance, quoted: list[QuotedSource]) -> Iterator[str]:
    """Yields the sources with a quoted text, or with numbers of it."""
    if not quoted:
        yield f"No source of {found.answer.label} has this text, or a number of it."
        yield "Its agent may have said it in other words."
        return
    for each in quoted:
        what = "the text" if each.is_whole else ", ".join(each.numbers)
        yield one_line(f"{_line(each.source)}", WIDTH)
        yield one_line(f"  has {what}", WIDTH, indent=True)
    yield "Texts and numbers are compared; the same in other words is not found."


def provenance_document(found: Provenance, quoted: list[QuotedSource] | None) -> dict[str, Any]:
    """Returns the JSON form; with a quotation, of the sources that have it."""
    numbers = {each.source.id: each for each in quoted or ()}
    sources = [source for source in found.sources if quoted is None or source.id in numbers]
    document: dict[str, Any] = {"run_id": found.run_id, "answer": found.answer.id, "sources": []}
    for source in sources:
        entry: dict[str, Any] = {"id": source.id, "kind": str(source.kind), "label": source.label}
        for name in ("seq", "task_id", "version", "scope", "run_id", "detail"):
            if value := getattr(source, name):
                entry[name] = value
        if source.text:
            entry["text"] = one_line(source.text, MAX_TEXT)
        if (match := numbers.get(source.id)) is not None:
            entry["has_text"], entry["numbers"] = match.is_whole, list(match.numbers)
        document["sources"].append(entry)
    if quoted is None:
        document["uses"] = [{"of": link.of, "on": link.on, "how": link.how} for link in found.links]
        document["unread"] = [{"by": link.of, "source": link.on, "what": link.how} for link in found.unread]
    return document


def provenance_svg(found: Provenance) -> str:
    """Returns a drawing, from the goal on the left to the answer on the right. Calls of one model or tool by one task
    are one box."""
    from archon_mesh.core.memory_graph.svg import Look, to_svg

    names = {source.id: source.id for source in found.sources}
    counts: dict[str, int] = {}
    for source in found.sources:
        if source.kind in _CALLS:
            names[source.id] = f"{source.kind}:{source.task_id}:{source.label}"
            counts[names[source.id]] = counts.get(names[source.id], 0) + 1
    by_id = {names[source.id]: source for source in found.sources}
    edges = list(dict.fromkeys((names[link.on], names[link.of]) for link in found.links))
    labels = {id_: _box(source, counts.get(id_, 0)) for id_, source in by_id.items()}
    classes = {id_: _CLASSES.get(source.kind, "call") for id_, source in by_id.items()}
    look = Look("What the answer rests on", _STYLE, classes)
    return to_svg(list(by_id), edges, labels, look)


def _box(source: Source, calls: int) -> str:
    if source.kind in _CALLS:
        return f"{source.kind} {one_line(source.label, 30)}\n{counted(calls, 'call')}"
    lines = [one_line(_line(source), 44)]
    if source.kind is SourceKind.ANSWER and source.text:
        lines.append(one_line(source.text, 44))
    return "\n".join(lines)
