"""The configurations of deploy/proxies fit the limits of the HTTP gateway."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from archon_services.gateway.settings import GatewaySettings
from archon_services.gateway.watches.batches import SILENCE
from tests.unit.deploy.manifests import ROOT

FILES = sorted((ROOT / "deploy" / "proxies").iterdir())
IDLE = {
    "Caddyfile": r"keepalive (\d+)s",
    "envoy.yaml": r"common_http_protocol_options: \{idle_timeout: (\d+)s",
    "haproxy.cfg": r"pool-purge-delay (\d+)s",
    "nginx.conf": r"keepalive_timeout (\d+)s",
    "traefik-dynamic.yaml": r"idleConnTimeout: (\d+)s",
}
"""For how long each keeps an idle connection to the gateway."""


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_proxy_ends_idle_connections_before_the_gateway_does(file: Path) -> None:
    text = file.read_text()
    [seconds] = re.findall(IDLE[file.name], text)
    keep_alive = GatewaySettings.model_fields["keep_alive_seconds"].default
    assert SILENCE < int(seconds) < keep_alive
    assert f"({keep_alive})" in text
    assert {"8080", "8081"} <= set(re.findall(r"\b80\d\d\b", text)), "two replicas"
    if file.suffix == ".yaml":
        assert yaml.safe_load(text)
