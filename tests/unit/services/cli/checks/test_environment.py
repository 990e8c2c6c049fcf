"""Checks of the environment variables."""

from __future__ import annotations

import os

import pytest

from archon_services.cli.checks import environment
from tests.unit.services.cli.checks.findings import levels, texts


@pytest.mark.parametrize(
    ("variables", "level", "text"),
    [
        ({}, "ok", "no ARCHON_* variable is set"),
        ({"ARCHON_HOME": "/x", "ARCHON_MAX_RUNS": "5"}, "ok", "ARCHON_HOME, ARCHON_MAX_RUNS"),
        ({"ARCHON_DRAIN": "5"}, "ok", "ARCHON_DRAIN"),
        ({"ARCHON_REGISTY": "x"}, "warning", "Did you mean ARCHON_REGISTRY?"),
        ({"ARCHON_ZZZZZZZZZZZZ": "x"}, "warning", "Archon does not read it"),
        (
            {"ARCHON_REGISTRY_PORT": "tcp://10.0.0.1:7101", "ARCHON_REGISTRY_SERVICE_HOST": "10.0.0.1"},
            "ok",
            "no ARCHON_* variable is set",
        ),
        ({"ARCHON_REGISTRY_PORT_7101_TCP_ADDR": "10.0.0.1"}, "ok", "no ARCHON_* variable is set"),
        ({"ARCHON_TTL": "soon"}, "problem", "ARCHON_TTL is 'soon'"),
    ],
)
def test_unknown_variables_and_invalid_values_are_findings(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], level: str, text: str
) -> None:
    for name in [name for name in os.environ if name.startswith("ARCHON_")]:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    findings = environment.check_environment(variables)
    assert levels(findings) == [level] and text in texts(findings)
