"""Who a server lets in."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from archon.errors import (
    InvalidArgument,
    PermissionDenied,
    TokenExpired,
    TokenInvalid,
    TokenMissing,
    TokenRevoked,
    Unavailable,
)
from archon.principal import Kind, Principal
from archon.security import authenticator
from archon.security.authenticator import LearntKeys, MemberAuthenticator, Open, agent_authenticator, own_authenticator
from archon.security.keys import KeyFile
from tests.fixtures.tokens import TestKeys

PLAIN: Final = dict
"""What is known of a connection without TLS."""

METHOD = "/archon.api.orchestrator.v1.OrchestratorService/GetRun"
HEALTH = "/grpc.health.v1.Health/Check"
ALICE = Principal(Kind.OPERATOR, "alice", "acme", token_id="t-1")


@pytest.fixture(autouse=True)
def _outside_of_a_mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARCHON_KEYS", "ARCHON_TOKEN", "ARCHON_TOKEN_FILE", "ARCHON_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def keys(tmp_path: Path) -> TestKeys:
    return TestKeys(tmp_path)


@pytest.fixture
def server(keys: TestKeys) -> MemberAuthenticator:
    return MemberAuthenticator(KeyFile(keys.file, interval=0.0), "services")


def presented(token: str, *more: tuple[str, str]) -> list[tuple[str, str | bytes]]:
    return [("authorization", f"Bearer {token}"), *more]


def test_a_caller_is_who_its_token_says(keys: TestKeys, server: MemberAuthenticator) -> None:
    caller = server.caller(METHOD, presented(keys.token(ALICE)), PLAIN)
    assert (caller.tenant, caller.identity) == ("acme", "alice")
    assert caller.principal is not None
    assert caller.principal.kind is Kind.OPERATOR
    agent = Principal(Kind.AGENT, "reviewer")
    registry = "/archon.api.registry.v1.RegistryService/Watch"
    assert server.caller(registry, presented(keys.token(agent)), PLAIN).identity == "agent:reviewer"


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_is_read_as_rfc_9110_says(keys: TestKeys, server: MemberAuthenticator, scheme: str) -> None:
    assert server.caller(METHOD, [("authorization", f"{scheme} {keys.token(ALICE)}")], PLAIN).identity == "alice"


@pytest.mark.parametrize("metadata", [[], [("authorization", "")], [("authorization", "Basic YTpi")], [("token", "x")]])
def test_a_call_without_a_token_is_told_how_to_get_one(
    server: MemberAuthenticator, metadata: list[tuple[str, str | bytes]]
) -> None:
    with pytest.raises(TokenMissing, match="mesh-of-tests needs a token: `archon token`"):
        server.caller(METHOD, metadata, PLAIN)


def test_health_needs_no_token(server: MemberAuthenticator) -> None:
    assert server.caller(HEALTH, [], PLAIN).identity == "anonymous"


def test_a_token_is_verified_once(keys: TestKeys, server: MemberAuthenticator, monkeypatch: pytest.MonkeyPatch) -> None:
    token = keys.token(ALICE)
    server.caller(METHOD, presented(token), PLAIN)
    monkeypatch.setattr(authenticator, "verify", None)
    assert server.caller(METHOD, presented(token), PLAIN).identity == "alice"


def test_a_known_token_is_refused_once_it_is_revoked_or_has_expired(
    keys: TestKeys, server: MemberAuthenticator, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keys.token(ALICE)
    principal = server.caller(METHOD, presented(token), PLAIN).principal
    assert principal is not None
    server.check(principal)
    keys.write("t-1")
    for check in (lambda: server.caller(METHOD, presented(token), PLAIN), lambda: server.check(principal)):
        with pytest.raises(TokenRevoked):
            check()
    keys.write()
    server.caller(METHOD, presented(token), PLAIN)
    monkeypatch.setattr("archon.security.authenticator.time.time", lambda: principal.expires)
    for check in (lambda: server.caller(METHOD, presented(token), PLAIN), lambda: server.check(principal)):
        with pytest.raises(TokenExpired):
            check()


def test_a_new_key_refuses_earlier_tokens(keys: TestKeys, tmp_path: Path) -> None:
    server = MemberAuthenticator(KeyFile(keys.file, interval=0.0), "services")
    token = keys.token(ALICE)
    server.caller(METHOD, presented(token), PLAIN)
    TestKeys(tmp_path).write()
    with pytest.raises(TokenInvalid, match="earlier key"):
        server.caller(METHOD, presented(token), PLAIN)


def test_services_and_admins_call_on_behalf_of_others(keys: TestKeys, server: MemberAuthenticator) -> None:
    others = ("archon-identity", "ann"), ("archon-tenant", "blue")
    for principal in (Principal(Kind.SERVICE, "x"), Principal(Kind.ADMIN, "x", "blue")):
        caller = server.caller(METHOD, presented(keys.token(principal), *others), PLAIN)
        assert (caller.identity, caller.tenant) == ("ann", "blue")
        assert caller.principal is not None
        assert caller.principal.name == "x"
    for kind in (Kind.VIEWER, Kind.OPERATOR, Kind.AUDITOR):
        with pytest.raises(PermissionDenied, match="may not call as 'ann'"):
            server.caller(METHOD, presented(keys.token(Principal(kind, "x")), *others), PLAIN)
    as_itself = presented(keys.token(ALICE), ("archon-identity", "alice"), ("archon-tenant", "blue"))
    assert server.caller(METHOD, as_itself, PLAIN).tenant == "acme"


@pytest.mark.parametrize(
    "principal", [Principal(Kind.ADMIN, "x"), Principal(Kind.ADMIN, "x", "acme"), Principal(Kind.SERVICE, "x", "acme")]
)
def test_only_services_of_the_mesh_call_in_another_tenant(
    keys: TestKeys, server: MemberAuthenticator, principal: Principal
) -> None:
    """An admin, and a service of one tenant, act for others in their own tenant alone."""
    for others in ((), (("archon-identity", "ann"),)):
        with pytest.raises(PermissionDenied, match="may not call in another tenant"):
            server.caller(METHOD, presented(keys.token(principal), *others, ("archon-tenant", "blue")), PLAIN)
    service = keys.token(Principal(Kind.SERVICE, "orchestrator"))
    caller = server.caller(METHOD, presented(service, ("archon-tenant", "blue")), PLAIN)
    assert (caller.tenant, caller.identity) == ("blue", "service:orchestrator"), "on its own behalf, for a run of blue"
    with pytest.raises(InvalidArgument, match="archon-tenant"):
        server.caller(METHOD, presented(service, ("archon-tenant", "blue:designer")), PLAIN)


def test_an_agent_lets_in_callers_of_its_own_tenant_and_services_of_the_mesh(keys: TestKeys) -> None:
    tenant = ""
    agent = MemberAuthenticator(KeyFile(keys.file, interval=0.0), "agents", own_tenant=lambda: tenant)
    method = "/archon.api.agent.v1.AgentService/Describe"

    def call(principal: Principal) -> str:
        return agent.caller(method, presented(keys.token(principal, "agents")), PLAIN).tenant

    neighbour, other = Principal(Kind.AGENT, "writer", "acme"), Principal(Kind.AGENT, "writer", "blue")
    with pytest.raises(Unavailable, match="not registered yet"):
        call(neighbour)
    assert call(Principal(Kind.SERVICE, "orchestrator")) == "default"
    tenant = "acme"
    assert call(neighbour) == "acme"
    for stranger in (other, Principal(Kind.ADMIN, "x"), Principal(Kind.SERVICE, "x", "blue")):
        with pytest.raises(PermissionDenied, match="another tenant than this agent"):
            call(stranger)


def test_an_agent_calls_on_its_own_behalf_whoever_it_works_for(keys: TestKeys, server: MemberAuthenticator) -> None:
    method = "/archon.api.memory.v1.WorkingMemoryService/SetValue"
    metadata = presented(
        keys.token(Principal(Kind.AGENT, "writer")), ("archon-identity", "ann"), ("archon-tenant", "b")
    )
    caller = server.caller(method, metadata, PLAIN)
    assert (caller.identity, caller.tenant) == ("agent:writer", "default")


def test_refusals_are_logged_a_few_in_a_minute(server: MemberAuthenticator, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        with pytest.raises(TokenMissing):
            server.caller(METHOD, [], PLAIN)
    assert sum("refused a call of GetRun" in record.message for record in caplog.records) == 10


def test_without_keys_every_caller_is_anonymous(keys: TestKeys, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(own_authenticator(), Open)
    claimed = presented(keys.token(ALICE), ("archon-identity", "root"))
    assert own_authenticator().caller(METHOD, claimed, PLAIN).identity == "anonymous"
    monkeypatch.setenv("ARCHON_KEYS", str(keys.file))
    assert own_authenticator().caller(METHOD, presented(keys.token(ALICE)), PLAIN).identity == "alice"


def test_an_agent_with_a_token_lets_nobody_in_before_it_knows_the_keys(
    keys: TestKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = "/archon.api.agent.v1.AgentService/Session"
    orchestrator = Principal(Kind.SERVICE, "orchestrator")
    server, told = agent_authenticator("127.0.0.1:1")
    assert isinstance(told, LearntKeys)
    assert server.caller(session, [], PLAIN).principal is None
    monkeypatch.setenv("ARCHON_TOKEN", keys.tokens(Principal(Kind.AGENT, "reviewer")))
    with pytest.raises(Unavailable, match="not registered yet"):
        server.caller(session, presented(keys.token(orchestrator, "agents")), PLAIN)
    told.tell("no keys", "")
    with pytest.raises(Unavailable):
        server.caller(session, presented(keys.token(orchestrator, "agents")), PLAIN)
    told.tell(keys.file.read_text(), "")
    assert (
        server.caller(session, presented(keys.token(orchestrator, "agents")), PLAIN).identity == "service:orchestrator"
    )
    with pytest.raises(TokenInvalid, match="not for the agents"):
        server.caller(session, presented(keys.token(orchestrator)), PLAIN)
    with pytest.raises(TokenMissing):
        server.caller(session, [], PLAIN)


def test_an_agent_without_a_registry_serves_everybody() -> None:
    server, _ = agent_authenticator("")
    assert server.caller("/archon.api.agent.v1.AgentService/RunTask", [], PLAIN).principal is None
