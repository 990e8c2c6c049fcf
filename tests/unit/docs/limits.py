"""Writes docs/limits.md from the constants in the code: `python -m tests.unit.docs.limits`. The rows are in
`limit_rows`, an area in each module.

A limit's text names each constant as `{module:expression}`, optionally with a unit: `{module:expression|bytes}`. The
expression is evaluated in the imported module, so that a constant which is moved or renamed fails the test that
compares the page.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Final

from tests.unit.docs.limit_rows import (
    builtin_tools,
    callers,
    command_line,
    local_mesh,
    logs,
    long_term_memory,
    memory,
    metrics,
    model_calls,
    plans,
    registry,
    runs,
    sessions,
    stores,
    tools,
    watches,
    workflows,
)
from tests.unit.docs.limit_rows.limit import Limit

PAGE: Final = Path(__file__).parents[3] / "docs" / "limits.md"
REFERENCE: Final = re.compile(r"\{([\w.]+):([^{}|]+)(?:\|(bytes|seconds|characters))?\}")

HEAD: Final = """# Limits

Everything that waits or is kept has a limit. If a caller exceeds a limit that is temporary, the response is
`RESOURCE_EXHAUSTED` with a delay after which to retry (`RetryInfo`).

This page is written by `python -m tests.unit.docs.limits` from the constants in the code.
"""

TAIL: Final = """
`make soak MINUTES=60` runs a mesh under load, kills an agent every minute, and fails if a run is lost or a process grows.
"""


LIMITS: Final[dict[str, list[Limit]]] = {
    "Runs": runs.LIMITS,
    "Watches": watches.LIMITS,
    "Stores": stores.LIMITS,
    "Sessions with agents": sessions.LIMITS,
    "Callers": callers.LIMITS,
    "Registry": registry.LIMITS,
    "Memory": memory.LIMITS,
    "Long-term memory": long_term_memory.LIMITS,
    "Tools": tools.LIMITS,
    "Tools that come with Archon": builtin_tools.LIMITS,
    "Workflows": workflows.LIMITS,
    "Plans": plans.LIMITS,
    "Model calls": model_calls.LIMITS,
    "Metrics": metrics.LIMITS,
    "Command line": command_line.LIMITS,
    "Logs": logs.LIMITS,
    "A mesh on one machine": local_mesh.LIMITS,
}


def value_of(module: str, expression: str) -> float:
    """Evaluates the expression in the module. Raises if either is not there, or the value is not a number."""
    value = eval(expression, vars(importlib.import_module(module)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{module}:{expression} is {value!r}, not a number")
    return value


def shown(number: float, unit: str | None) -> str:
    """Formats a number: bytes in KiB or MiB, seconds up to days, counts with separators."""
    if unit == "bytes":
        return _sized(number, "B", "KiB", "MiB")
    if unit == "characters":
        if number % 1024 and number < 1e6:
            return f"{number:,.0f} characters"
        return _sized(number, "characters", "Ki characters", "Mi characters")
    if unit == "seconds":
        for size, name in ((86_400, "days"), (3_600, "h")):
            if number >= size:
                count = number / size
                return "1 day" if name == "days" and count == 1 else f"{count:g} {name}"
        return f"{number:g} s"
    return f"{number:,g}" if number < 1e6 else f"{number:,.0f}"


def _sized(number: float, *units: str) -> str:
    for unit in units[:-1]:
        if number < 1024:
            return f"{number:g} {unit}"
        number /= 1024
    return f"{round(number, 1):g} {units[-1]}"


def row(limit: Limit) -> str:
    """Renders one row of a table."""
    value = REFERENCE.sub(lambda match: shown(value_of(match[1], match[2]), match[3]), limit.value)
    return f"| {limit.what} | {value} | {limit.above} |"


def page() -> str:
    """Renders the page."""
    parts = [HEAD]
    for area, limits in LIMITS.items():
        head = "| what | limit | above it |\n|---|---|---|"
        parts.append(f"\n## {area}\n\n{head}\n" + "\n".join(map(row, limits)) + "\n")
    return "".join([*parts, TAIL])


if __name__ == "__main__":
    PAGE.write_text(page())
