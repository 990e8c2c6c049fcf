"""The environment, as `archon doctor` finds it."""

from __future__ import annotations

import os

import pytest

from archon_services.cli.checks import environment
from tests.unit.services.cli.found import levels, said


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        ({}, "ok", "nothing"),
        ({"ARCHON_HOME": "/x", "ARCHON_MAX_RUNS": "5"}, "ok", "ARCHON_HOME, ARCHON_MAX_RUNS"),
        ({"ARCHON_REGISTY": "x"}, "warning", "Did you mean ARCHON_REGISTRY?"),
        ({"ARCHON_ZZZZZZZZZZZZ": "x"}, "warning", "Nothing of Archon reads it"),
        ({"ARCHON_REGISTRY_PORT": "tcp://10.0.0.1:7101", "ARCHON_REGISTRY_SERVICE_HOST": "10.0.0.1"}, "ok", "nothing"),
        ({"ARCHON_REGISTRY_PORT_7101_TCP_ADDR": "10.0.0.1"}, "ok", "nothing"),
        ({"ARCHON_TTL": "soon"}, "problem", "ARCHON_TTL is 'soon'"),
    ],
)
def test_variables_that_nobody_reads_and_values_that_nobody_takes_are_told(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], level: str, words: str
) -> None:
    for name in [name for name in os.environ if name.startswith("ARCHON_")]:
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = environment.check_environment(given)
    assert levels(found) == [level] and words in said(found)
