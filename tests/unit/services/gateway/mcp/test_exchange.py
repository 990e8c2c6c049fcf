"""Requests of earlier revisions of MCP: places in streams, sealed sessions, and clients that do not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from archon.errors import NotFound
from archon.security.authenticator import Caller
from archon_services.common.sealing import Sealer
from archon_services.gateway.identity.visitors import Visitor
from archon_services.gateway.mcp import exchange as module
from archon_services.gateway.mcp.exchange import MAX_WAITING, Cursor, Exchange
from archon_services.gateway.mcp.sessions import MAX_CAPABILITIES, ClientSession, opened, session_id


def request() -> Request:
    return Request({"type": "http", "method": "POST", "headers": []})


def visitor(identity: str, tenant: str = "default") -> Visitor:
    return Visitor(Caller(tenant, identity), ())


def test_a_place_in_a_stream_survives_its_id_and_others_are_none() -> None:
    place = Cursor("7", 3, "run-1", 12)
    assert Cursor.read(place.encoded()) == place
    for text in ("", "x", "é", Cursor(True, None, "r", 1).encoded(), Cursor("1", None, "r", 1).encoded()[:-4]):
        assert Cursor.read(text) is None


def test_a_session_opens_for_its_owner_alone(tmp_path: Path) -> None:
    sealer = Sealer.from_file(tmp_path / "key")
    session = ClientSession(version="2025-11-25", capabilities={"elicitation": {}, "x": "y" * MAX_CAPABILITIES})
    sealed = session_id(sealer, visitor("olga"), session)
    found = opened(sealer, visitor("olga"), sealed)
    assert (found.nonce, found.version, found.capabilities) == (session.nonce, "2025-11-25", {"elicitation": {}})
    for other in (visitor("otto"), visitor("olga", "blue")):
        with pytest.raises(NotFound):
            opened(sealer, other, sealed)
    with pytest.raises(NotFound):
        opened(Sealer.from_file(tmp_path / "other"), visitor("olga"), sealed)


async def test_a_client_that_does_not_read_holds_up_its_own_stream_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEND_SECONDS", 0.01)
    slow, quick = (Exchange(request(), 1, ClientSession(), "token") for _ in range(2))
    for number in range(MAX_WAITING):
        await slow.progress(number)
    with pytest.raises(TimeoutError):
        await slow.progress(MAX_WAITING)
    await quick.progress(1.0, None, "works")
    message: Any = quick.outgoing.get_nowait().message
    assert message["params"] == {"progressToken": "token", "progress": 1.0, "message": "works"}
    slow.cancel()
    assert slow.cancelled and slow.outgoing.qsize() == MAX_WAITING


async def test_events_have_no_id_until_the_run_is_known() -> None:
    exchange = Exchange(request(), 1, ClientSession())
    await exchange.notify("notifications/message", {"data": "x"})
    exchange.follow("run-1")
    exchange.mark(4)
    await exchange.notify("notifications/message", {"data": "y"})
    first, second = exchange.outgoing.get_nowait(), exchange.outgoing.get_nowait()
    assert (first.event_id, Cursor.read(second.event_id)) == ("", Cursor(1, None, "run-1", 4))
