"""Writes docs/reference/session.md from sdk/conformance/session.yaml: `python -m tests.unit.docs.session_page`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.unit.docs.tables import REFERENCE, table

PAGE: Final = REFERENCE / "session.md"
SOURCE: Final = Path(__file__).parents[3] / "sdk" / "conformance" / "session.yaml"

HEAD: Final = """# The session of an agent

What an agent does, by state, when a frame arrives or a time has passed. A stream is *connected* before `open`, then *open*, and
*draining* once the process has been asked to stop. A task is *unknown*, *working*, *waiting* (for a delegation or a person), *parked* (it has a
result that was not acknowledged) or *over*; *held* is any but unknown and over. [The contract](../contract.md#rules) says why; each row is held by
scenarios of [the conformance suite](conformance.md), which every SDK passes.

This page is written by `python -m tests.unit.docs.session_page` from `sdk/conformance/session.yaml`; a test compares them.

"""


@dataclass(frozen=True, slots=True)
class Row:
    """One row: in a state, a frame in, the frames out, a time, what must never follow, and the scenarios that hold it."""

    id: str
    state: str
    frame_in: str
    frames_out: str
    timer: str
    never: str
    scenarios: tuple[str, ...]


def rows() -> list[Row]:
    """Returns the rows of the table."""
    entries = yaml.safe_load(SOURCE.read_text())["rows"]
    return [
        Row(
            entry["id"], entry["state"], entry["in"], entry["out"], entry["timer"], entry["never"],
            tuple(entry["scenarios"]),
        )
        for entry in entries
    ]  # fmt: skip


def page() -> str:
    """Returns the page."""
    cells = [
        (row.id, row.state, *(_cell(text) for text in (row.frame_in, row.frames_out, row.timer, row.never)),
         ", ".join(f"`{name}`" for name in row.scenarios))
        for row in rows()
    ]  # fmt: skip
    return HEAD + table(("rule", "state", "in", "out", "timer", "never", "scenarios"), cells)


def _cell(text: str) -> str:
    return "" if text == "-" else text


if __name__ == "__main__":
    PAGE.write_text(page())
