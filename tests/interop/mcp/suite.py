"""Runs the conformance suite of the Model Context Protocol, and compares its results with the expected failures."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

EXPECTED: Final = Path(__file__).parent / "expected_failures.yaml"

SCENARIO_MS: Final = 120_000
"""Milliseconds of a scenario: the suite starts those of clients all at once."""

PATIENCE: Final = 280.0
"""Seconds of the suite."""

_TIME: Final = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
_FAILED: Final = ("FAILURE", "WARNING")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A run of the suite: the scenarios, the failed checks as `SCENARIO:CHECK` with their messages, and the number of
    passed ones."""

    scenarios: set[str]
    failed: dict[str, str]
    passed: int

    def unexpected(self, listed: Sequence[str]) -> dict[str, str]:
        """Returns the failures that are not listed with their messages, and the listed entries of the scenarios that
        have not failed."""
        expected = [entry for entry in listed if entry.partition(":")[0] in self.scenarios]
        known = {check for check in self.failed if check in expected or check.partition(":")[0] in expected}
        failed = {name for check in self.failed for name in (check, check.partition(":")[0])}
        unlisted = {check: message for check, message in self.failed.items() if check not in known}
        return unlisted | {entry: "is listed, and passes" for entry in expected if entry not in failed}


def expected_failures(role: str) -> list[str]:
    """Returns the list for `server` or `client`."""
    listed: list[str] = yaml.safe_load(EXPECTED.read_text())[role]
    return listed


def read_results(folder: Path, role: str) -> Outcome:
    """Returns the results that the suite has written into a folder."""
    scenarios, failed, passed = set[str](), dict[str, str](), 0
    for path in folder.rglob("checks.json"):
        scenario = _TIME.sub("", path.parent.relative_to(folder).as_posix())
        scenario = scenario.removeprefix("server-") if role == "server" else scenario
        scenarios.add(scenario)
        for check in json.loads(path.read_text()):
            if check["status"] in _FAILED:
                failed[f"{scenario}:{check['id']}"] = str(check.get("errorMessage") or check.get("description"))[:500]
            passed += check["status"] == "SUCCESS"
    return Outcome(scenarios, failed, passed)


async def run_suite(command: Sequence[str | Path], role: str, folder: Path, *options: str) -> Outcome:
    """Runs the suite against a `server` or a `client`; it writes its results into the folder. Raises TimeoutError after
    PATIENCE seconds, and RuntimeError with the end of its output if there are no results."""
    process = await asyncio.create_subprocess_exec(
        *(*command, role, *options, "--timeout", str(SCENARIO_MS), "-o", folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(PATIENCE):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    outcome = read_results(folder, role)
    if not outcome.scenarios:
        raise RuntimeError(output.decode(errors="replace")[-4000:])
    return outcome
