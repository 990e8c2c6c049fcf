"""The subjects of the SDK for Python, and runs of scenarios against them."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from archon.conformance import Options, Report, run_cases

FOLDER: Final = Path(__file__).parents[2] / "sdk" / "conformance"
SUBJECT: Final = shlex.join([sys.executable, str(FOLDER / "subjects" / "python_subject.py")])
EXPECTED: Final = FOLDER / "expected" / "python.yaml"

SECURITY: Final = os.environ.get("ARCHON_SDKS", "")
"""The security of the scenarios that are played by themselves, `plain` or `mtls`: both at once are too much for two
cores."""

PACE_OF_FOUR: Final = 4.0
"""Multiplies the times within which things must happen, if four subjects share two cores."""

alone = pytest.mark.skipif(not os.environ.get("ARCHON_SDKS"), reason="make test-sdks, make conformance-sdks")


def faulty(fault: str) -> str:
    """Returns the command of the subject with a fault."""
    return shlex.join([sys.executable, str(FOLDER / "subjects" / "faulty.py"), fault])


async def run(
    *names: str,
    subject: str = SUBJECT,
    expected: Path | None = None,
    transport: str = "",
    security: str = "",
    pace: float = 1.0,
) -> Report:
    """Runs scenarios, all without a name."""
    expected = EXPECTED if subject == SUBJECT else expected
    options = Options(
        subject=subject, names=names, transport=transport, security=security, expected=expected, pace=pace
    )
    return await run_cases(options)


def names_of(report: Report) -> Sequence[str]:
    """Returns the names of all cases of a report that failed, and were not expected to."""
    return [outcome.case.name for outcome in report.failed]
