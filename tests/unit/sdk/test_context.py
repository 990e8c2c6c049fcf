"""Time left, not time configured."""

from __future__ import annotations

from archon import context
from archon.interceptors import identity


def test_a_call_made_while_serving_gets_what_is_left_and_never_more() -> None:
    assert context.timeout(30.0) == 30.0
    with context.deadline(5.0):
        assert 4.5 < context.timeout(30.0) <= 5.0
        assert context.timeout(1.0) == 1.0
        with context.deadline(60.0):
            assert context.timeout(30.0) <= 5.0, "an inner deadline never lengthens the outer"
    assert context.timeout(30.0) == 30.0


def test_without_credentials_everybody_is_anonymous_in_the_default_tenant(monkeypatch: object) -> None:
    claimed = (("archon-tenant", "acme"), ("archon-identity", "root"))
    assert identity.incoming(claimed) == ("default", "anonymous")


def test_an_identity_on_a_hop_is_believed_only_from_a_service_of_the_mesh(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("ARCHON_MESH_SECRET", "s3cret")
    claimed = [("archon-tenant", "acme"), ("archon-identity", "alice")]
    assert identity.incoming(claimed) == ("default", "anonymous")
    assert identity.incoming([*claimed, ("archon-mesh-secret", "wrong")]) == ("default", "anonymous")
    with context.serving(context.CallContext(tenant="acme", identity="alice")):
        assert identity.incoming(identity.outgoing()) == ("acme", "alice")
