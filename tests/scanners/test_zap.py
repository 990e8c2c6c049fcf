"""ZAP's passive scan has no finding above low about any room of the gateway."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest

from archon import AgentServer
from archon.agent import AgentSettings
from archon.principal import Kind, Principal
from archon_mesh.agent import Agent
from archon_mesh.llm import ScriptedModel
from archon_mesh.node.handler import agent_handler
from archon_services.gateway.web.files import FOLDER, INDEX
from archon_services.local_mesh.authority import Authority
from tests.fixtures.http_gateway import gateway_mesh
from tests.fixtures.require import missing
from tests.scanners.exchanges import record_all
from tests.scanners.zap import scan

pytestmark = pytest.mark.search

LOW = 1
RULES = 50
"""Rules that ran, at least."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("encrypted", [False, True], ids=["http", "https"])
async def test_no_room_has_a_finding_above_low(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypted: bool
) -> None:
    if not (FOLDER / INDEX).exists():
        missing("web", "the web page is not built: `make web`")
    now = datetime.datetime.now(datetime.UTC)
    Authority.create("mesh", now=now).issue_server(tmp_path / "tls", ("localhost", "127.0.0.1"), now=now, days=1.0)
    exchanges = tmp_path / "exchanges"
    exchanges.mkdir()
    settings: dict[str, Any] = {"http_tls": str(tmp_path / "tls")} if encrypted else {}
    trusted = {"verify": ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.crt"))} if encrypted else {}
    settings |= {"requests_per_second": 10_000.0, "trial_models": "offline"}
    ada = Principal(Kind.ADMIN, "ada")
    async with gateway_mesh(tmp_path, monkeypatch, **settings) as served:
        agent = Agent("teller", model=ScriptedModel(["A short answer."]), system_prompt="Tell all.")
        registry = AgentSettings(registry=served.mesh.registry.address)
        async with AgentServer("teller", handler=agent_handler(agent, memory=""), settings=registry):
            async with served.http(ada, **trusted) as http:
                told = await served.submit(http, "Tell me.", roles=["teller"], wait="10s")
            names = await record_all(served, ada, exchanges, told, **trusted)
    assert len(names) == len(set(names)) > 50
    rules, alerts = scan(exchanges)
    assert rules >= RULES
    above = sorted({(alert.risk, alert.name, alert.exchange, alert.evidence) for alert in alerts if alert.risk > LOW})
    assert not above


def test_the_scan_finds_what_it_looks_for(tmp_path: Path) -> None:
    for suffix, content in {
        ".url": "http://127.0.0.1/",
        ".request": "GET http://127.0.0.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        ".body": "",
        ".response": "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nSet-Cookie: session=1\r\n\r\n",
        ".answer": "<html><body>hello</body></html>",
    }.items():
        (tmp_path / f"page{suffix}").write_text(content, newline="")
    _, alerts = scan(tmp_path)
    assert {alert.rule for alert in alerts if alert.risk > LOW} >= {10020, 10038}
