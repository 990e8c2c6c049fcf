"""The SDKs for Go, TypeScript and Java pass every scenario, and their own tests."""

from __future__ import annotations

import shlex
import subprocess
from typing import Final

import pytest

from tests.conformance.sdks import SDKS, Sdk, see_rest
from tests.conformance.subjects import FOLDER, PACE_OF_FOUR, SECURITY, alone, run
from tests.conformance.test_python import QUICK
from tests.fixtures.environment import CALLER

pytestmark = pytest.mark.slow

OWN_TESTS_WITHIN: Final = 240.0
"""Seconds for the tests of one SDK, with other tests beside them."""


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
async def test_quick_scenarios_pass(sdk: Sdk) -> None:
    subject = shlex.join(sdk.subject(sdk.build.require()))
    report = await run(*QUICK, subject=subject, security="plain", pace=4.0)
    assert report.passed, report.text()


@alone
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
async def test_all_scenarios_pass(sdk: Sdk) -> None:
    subject = shlex.join(sdk.subject(sdk.build.require()))
    expected = FOLDER / "expected" / f"{sdk.name}.yaml"
    report = await run(subject=subject, expected=expected, security=SECURITY, pace=PACE_OF_FOUR)
    assert report.passed, report.text()


@alone
@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: sdk.name)
def test_its_own_tests_pass(sdk: Sdk) -> None:
    sdk.build.require()
    see_rest(sdk.build)
    for command in sdk.tests():
        done = subprocess.run(
            command, cwd=sdk.build.target, env=dict(CALLER), capture_output=True, text=True, timeout=OWN_TESTS_WITHIN
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
