"""Texts of times, costs, counts and names, as every report formats them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

from archon.plain_text import duration

if TYPE_CHECKING:
    from archon.api.common.v1 import common_pb2
    from archon.run_view import Usage

INSUFFICIENT_BUDGET: Final = "budget request denied: not enough left"

# The output of a model must not control the terminal.
_CONTROLS: Final = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def axis_label(seconds: float, total: float) -> str:
    """Formats a time on an axis of `total` seconds; in milliseconds on a short one, whose labels would be the same."""
    if not seconds:
        return "0 s"
    return f"{seconds * 1_000:.3g} ms" if total < 0.1 else duration(seconds)


def cached_text(cached: int, read: int) -> str:
    """Formats the share of the tokens read that providers had in their caches: ` (80 % cached)`; empty if it is 0."""
    return f" ({100 * cached / read:.0f} % cached)" if cached and read else ""


def cost_text(micro_usd: int) -> str:
    """Formats millionths of a US dollar: $3, $0.05, $0.000123; empty if it is 0."""
    return f"${micro_usd / 1e6:,.6f}".rstrip("0").rstrip(".") if micro_usd else ""


def age(seconds: float) -> str:
    """Formats an age with one unit: 5 s, 3 m, 2 h, 4 d."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0.0, seconds))} s"


def one_line(text: str, length: int, *, indent: bool = False) -> str:
    """Returns the text without control characters and line breaks, shortened to `length` characters; with `indent`, the
    spaces at its start stay."""
    line = " ".join(strip_controls(text).split())
    if indent:
        line = text[: len(text) - len(text.lstrip(" "))] + line
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def local_time(seconds: float) -> str:
    """Formats seconds since the epoch in the local time zone."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def zoned_time(seconds: float) -> str:
    """Formats seconds since the epoch in the local time zone, with its name."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(seconds))


def strip_controls(text: str) -> str:
    """Removes control characters other than newline and tab."""
    return text.translate(_CONTROLS)


def token_count(count: int, usage: common_pb2.Usage | Usage) -> str:
    """Formats a number of tokens; with `~` if the usage is an estimate."""
    return f"{'~' if usage.estimated else ''}{count:,}"


def tokens_text(usage: common_pb2.Usage | Usage, noun: str = "") -> str:
    """Formats the tokens in and out, with the share of the former that providers had in their caches."""
    cached = cached_text(usage.cached_input_tokens, usage.input_tokens)
    return f"{token_count(usage.input_tokens, usage)}{noun} in{cached}, {token_count(usage.output_tokens, usage)} out"


def number(weight: float) -> str:
    """Returns a number of tasks, which may not be whole since older tasks count less: `12`, `3.5`."""
    return f"{weight:,.0f}" if weight >= 10 or abs(weight - round(weight)) < 0.05 else f"{weight:.1f}"


def percent(part: float) -> str:
    """Returns a part from 0 to 1 in percent."""
    return f"{100 * part:.0f} %"
