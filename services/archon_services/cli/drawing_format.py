"""The formats of graphs and plans, by name and by the suffix of a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from archon_services.cli.errors import USAGE, CliError


class Format(StrEnum):
    """Output formats of the graph."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    JSON = "json"
    SVG = "svg"


_BY_SUFFIX: Final = {
    "": Format.TEXT,
    ".txt": Format.TEXT,
    ".mmd": Format.MERMAID,
    ".dot": Format.DOT,
    ".gv": Format.DOT,
    ".json": Format.JSON,
    ".svg": Format.SVG,
}


def format_of(output: Path | None) -> Format:
    """Returns the format of a file's suffix. Raises CliError for a suffix of no format."""
    if output is None:
        return Format.TEXT
    form = _BY_SUFFIX.get(output.suffix)
    if form is None:
        known = ", ".join(suffix for suffix in _BY_SUFFIX if suffix)
        raise CliError(
            f"cannot write {output}: the suffix must be one of {known}",
            hint="Name the format with --format.",
            code=USAGE,
        )
    return form
