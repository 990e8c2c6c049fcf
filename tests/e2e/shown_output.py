"""Pages that show commands and their output: what they show, and whether a command prints it."""

from __future__ import annotations

import re
from dataclasses import dataclass

STEP = re.compile(r"^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
VARYING = (
    (re.compile(r"http://127\.0\.0\.1:\d+/login/once\?code=\S+"), "LINK"),
    (re.compile(r"\b[0-9a-f]{12,32}\b"), "ID"),
    (re.compile(r"\b\d+(\.\d+)? (s|ms|m)\b"), "TIME"),
    (re.compile(r"kill -9 \d+"), "kill -9 PID"),
    (re.compile(r"(?: [.:#+>=]+)+(?= +TIME)"), " BAR"),
    (re.compile(r"\b\d+(\.\d+)?%"), "SHARE"),
    (re.compile(r"\S*/library/"), ""),
    (re.compile(r"~[\d,]+(\.\d)?[kM]?"), "TOKENS"),
    (re.compile(r" +"), " "),
)
"""What differs between two runs: ids, pids, times and their bars and shares, the folder, and the width of columns, which
follows from these; and the estimates of tokens, which each change of a prompt changes."""

SKIP = "..."


@dataclass(frozen=True)
class Step:
    """A block of commands, and the output that the page shows; empty if it shows none."""

    commands: str
    shown: str


def steps(text: str) -> list[Step]:
    return [Step(match[1], match[2] or "") for match in STEP.finditer(text)]


def constant(text: str) -> str:
    """Replaces what differs between two runs."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def matches(shown: str, printed: str) -> bool:
    """Returns whether the output is what is shown, with any lines in the place of a line `...`."""
    parts = re.split(rf"^{re.escape(SKIP)}$", constant(shown), flags=re.M)
    pattern = r"(?s:.*)".join(re.escape(part.strip("\n")) for part in parts)
    return re.fullmatch(pattern, constant(printed).strip("\n")) is not None
