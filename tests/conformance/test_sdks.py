"""The SDKs for Go, TypeScript and Java pass every scenario, and their own tests."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.subjects import FOLDER, run
from tests.fixtures.environment import CALLER
from tests.interop import tools
from tests.interop.builds import GO_SDK, JAVA_SDK, ROOT, TYPESCRIPT_SDK, Build

pytestmark = pytest.mark.slow

OWN_TESTS_WITHIN: Final = 240.0
"""Seconds for the tests of one SDK, with other tests beside them."""


@dataclass(frozen=True, slots=True)
class Sdk:
    """An SDK: its build, the command of its subject, and the commands that test it."""

    name: str
    build: Build
    subject: Callable[[Path], list[str]]
    tests: Callable[[], list[list[str]]]


SDKS: Final = (
    Sdk("go", GO_SDK, lambda built: [str(built)], lambda: [[str(tools.go()), "test", "./..."]]),
    Sdk(
        "typescript",
        TYPESCRIPT_SDK,
        lambda built: ["node", str(built)],
        lambda: [["npm", "run", "lint"], ["npm", "test"]],
    ),
    Sdk("java", JAVA_SDK, lambda built: [str(built)], lambda: [["mvn", "-q", "-B", "-o", "test"]]),
)


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
async def test_all_scenarios_pass(sdk: Sdk) -> None:
    subject = shlex.join(sdk.subject(sdk.build.require()))
    report = await run(subject=subject, expected=FOLDER / "expected" / f"{sdk.name}.yaml", pace=2.0)
    assert report.passed, report.text()


def see_rest(build: Build) -> None:
    """Lets a built SDK see the parts of the repository that its tests read, at the same places beside it."""
    for part in ("docs", "protos"):
        link = build.target.parents[1] / part
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / part)


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_its_own_tests_pass(sdk: Sdk) -> None:
    sdk.build.require()
    see_rest(sdk.build)
    for command in sdk.tests():
        done = subprocess.run(
            command, cwd=sdk.build.target, env=dict(CALLER), capture_output=True, text=True, timeout=OWN_TESTS_WITHIN
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
