"""A short fuzz of every RPC; `make fuzz` sends ten times as many inputs."""

from __future__ import annotations

import pytest

from tests.adversary import fuzz


@pytest.mark.timeout(120)
def test_random_and_mutated_inputs_harm_no_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--inputs", "2000"]) == 0, capsys.readouterr().out
