"""Settings of the orchestrator."""

from __future__ import annotations

import pytest

from archon_services.orchestrator.settings import OrchestratorSettings


@pytest.mark.parametrize(
    ("advertise", "address"),
    [("", "127.0.0.1:7100"), ("node-3", "node-3:7100"), ("node-3:9000", "node-3:9000"), ("::1", "[::1]:7100")],
)
def test_other_replicas_get_the_address_that_is_advertised(advertise: str, address: str) -> None:
    assert OrchestratorSettings(advertise=advertise).advertised("127.0.0.1:7100") == address
