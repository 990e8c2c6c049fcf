"""Writes the tables of faults of docs/testing-agents.md from the code: `python -m tests.unit.docs.faults_tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from archon_mesh.testing import Fault, ModelFault, ToolFault
from archon_mesh.testing.injected_fault import NamedFault
from archon_services.testing.mesh_faults import OF_AGENTS, WITHOUT_LINKS
from tests.unit.docs.tables import code, table

PAGE: Final = Path(__file__).parents[3] / "docs" / "testing-agents.md"

FIRST: Final[dict[type[NamedFault], str]] = {
    Fault: "fault of a mesh",
    ModelFault: "fault of a model",
    ToolFault: "fault of a tool",
}
"""The kinds of faults, each with the head of the first column of its table."""


def faults_table(kind: type[NamedFault]) -> str:
    """Renders the table of one kind."""
    return table((FIRST[kind], "how it works", "what a test sees"), ((_name(f), f.effect, f.seen) for f in kind))


def _name(fault: NamedFault) -> str:
    marks = ("" if fault in WITHOUT_LINKS else "l") + ("a" if fault in OF_AGENTS else "")
    if not isinstance(fault, Fault) or not marks:
        return code(fault)
    return f"{code(fault)} ({', '.join({'l': 'links', 'a': 'agent'}[mark] for mark in marks)})"


def replaced(page: str) -> str:
    """Returns the page with the tables in place of its own. Raises ValueError if it has none."""
    for kind, first in FIRST.items():
        start = page.index(f"| {first} | ")
        end = page.find("\n\n", start)
        page = page[:start] + faults_table(kind) + (page[end + 1 :] if end >= 0 else "")
    return page


if __name__ == "__main__":
    PAGE.write_text(replaced(PAGE.read_text()))
