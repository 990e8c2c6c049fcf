"""The output formats of a waterfall."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """Output formats of a waterfall."""

    TEXT = "text"
    JSON = "json"
    SVG = "svg"
