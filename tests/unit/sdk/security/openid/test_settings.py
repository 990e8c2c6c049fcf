"""The settings of an OpenID provider."""

from __future__ import annotations

import pytest

from archon.errors import FailedPrecondition
from archon.principal import Kind
from archon.security.authenticator import own_authenticator
from archon.security.openid.settings import kinds_in, own_settings


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARCHON_KEYS", "ARCHON_TLS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ARCHON_OIDC_ISSUER", "https://login.example.com")
    monkeypatch.setenv("ARCHON_OIDC_AUDIENCE", "archon, archon-cli")
    monkeypatch.setenv("ARCHON_OIDC_KINDS", "admin=mesh-admins,operator=devs,viewer=*")


def test_the_environment_names_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = own_settings()
    assert settings is not None
    assert settings.audiences == {"archon", "archon-cli"}
    assert (settings.claim, settings.tenant_claim) == ("groups", "")
    assert settings.kinds == ((Kind.ADMIN, "mesh-admins"), (Kind.OPERATOR, "devs"), (Kind.VIEWER, "*"))
    monkeypatch.delenv("ARCHON_OIDC_ISSUER")
    assert own_settings() is None


def test_a_group_may_be_a_name_of_ldap() -> None:
    names = "admin=cn=admins,ou=groups,dc=example,dc=com,viewer=cn=all,dc=example"
    assert kinds_in(names) == (
        (Kind.ADMIN, "cn=admins,ou=groups,dc=example,dc=com"),
        (Kind.VIEWER, "cn=all,dc=example"),
    )
    assert kinds_in("admin=a,admin=/b") == ((Kind.ADMIN, "a"), (Kind.ADMIN, "/b"))


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        ("", "no caller would be let in"),
        ("devs", "not KIND=GROUP"),
        ("admin=", "not KIND=GROUP"),
        ("agent=bots", "credentials of the mesh alone"),
        ("viewer=*,service=x", "credentials of the mesh alone"),
        ("root=x", "unknown kind"),
        ("viewer=*,root=x", "no group"),
        ("viewer=a,b", "no group"),
    ],
)
def test_kinds_that_are_not_clear_are_refused(kinds: str, reason: str) -> None:
    with pytest.raises(FailedPrecondition, match=reason):
        kinds_in(kinds)


@pytest.mark.parametrize(
    "issuer",
    [
        "login.example.com",
        "ftp://x",
        "http://login.example.com",
        "https://",
        "https://a:b@x",
        "https://x/?a=b",
        "https://[",
        "https://x:port",
    ],
)
def test_an_issuer_is_https_or_on_this_machine(issuer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHON_OIDC_ISSUER", issuer)
    with pytest.raises(FailedPrecondition, match="ARCHON_OIDC_ISSUER"):
        own_settings()


def test_an_issuer_on_this_machine_needs_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    for issuer in ("http://127.0.0.1:8080/realms/x", "http://[::1]:8080", "http://localhost"):
        monkeypatch.setenv("ARCHON_OIDC_ISSUER", issuer)
        assert own_settings() is not None


def test_a_provider_needs_an_audience_and_members_with_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FailedPrecondition, match="ARCHON_KEYS or ARCHON_TLS"):
        own_authenticator()
    monkeypatch.setenv("ARCHON_OIDC_AUDIENCE", " ")
    with pytest.raises(FailedPrecondition, match="tokens for other programs"):
        own_settings()
