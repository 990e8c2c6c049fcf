"""Deadlines and identities of nested calls."""

from __future__ import annotations

from archon import context
from archon.interceptors import identity


def test_a_nested_call_gets_at_most_the_time_left() -> None:
    assert context.timeout(30.0) == 30.0
    with context.deadline(5.0):
        assert 4.5 < context.timeout(30.0) <= 5.0
        assert context.timeout(1.0) == 1.0
        with context.deadline(60.0):
            assert context.timeout(30.0) <= 5.0, "an inner deadline does not extend the outer deadline"
    assert context.timeout(30.0) == 30.0


def test_without_credentials_callers_are_anonymous(monkeypatch: object) -> None:
    claimed = (("archon-tenant", "acme"), ("archon-identity", "root"))
    assert identity.incoming(claimed) == ("default", "anonymous")


def test_an_identity_is_accepted_only_with_the_mesh_secret(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("ARCHON_MESH_SECRET", "s3cret")
    claimed = [("archon-tenant", "acme"), ("archon-identity", "alice")]
    assert identity.incoming(claimed) == ("default", "anonymous")
    assert identity.incoming([*claimed, ("archon-mesh-secret", "wrong")]) == ("default", "anonymous")
    with context.serving(context.CallContext(tenant="acme", identity="alice")):
        assert identity.incoming(identity.outgoing()) == ("acme", "alice")
