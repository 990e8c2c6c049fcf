"""A short fuzz of every RPC; `make fuzz` sends a million inputs, of strangers too."""

from __future__ import annotations

import pytest

from tests.adversary import fuzz


@pytest.mark.timeout(120)
@pytest.mark.parametrize("inputs", [40, pytest.param(2_000, marks=pytest.mark.search)])
def test_random_and_mutated_inputs_harm_no_service(capsys: pytest.CaptureFixture[str], inputs: int) -> None:
    assert fuzz.main(["--inputs", str(inputs)]) == 0, capsys.readouterr().out
