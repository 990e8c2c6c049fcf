"""A server's OpenID provider over real HTTP: whose tokens are accepted, and what a provider may do wrong."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from archon.background import BackgroundLoop
from archon.errors import ArchonError, PermissionDenied, TokenExpired, TokenInvalid, TokenRevoked, Unavailable
from archon.principal import Kind, Principal
from archon.security.authenticator import MemberAuthenticator
from archon.security.keys import KeyFile, SigningKey
from archon.security.openid import provider as module
from archon.security.openid.key_set import MAX_KEYS
from archon.security.openid.provider import Provider
from archon.security.openid.settings import OpenIdSettings, kinds_in
from archon.security.tokens import sign
from tests.fixtures.openid_provider import AUDIENCE, Key, OpenIdProvider
from tests.fixtures.tokens import TestKeys
from tests.fixtures.waiting import until

METHOD: Final = "/archon.api.orchestrator.v1.OrchestratorService/GetRun"
KINDS: Final = kinds_in("admin=mesh-admins,operator=devs,viewer=guests")
DISCOVERY: Final = "/.well-known/openid-configuration"


class Server:
    """The authenticator of a server with keys of its mesh and an OpenID provider, whose keys are kept."""

    def __init__(self, provider: Provider, keys: TestKeys) -> None:
        self.provider = provider
        self.keys = keys
        self.authenticator = MemberAuthenticator(KeyFile(keys.file, interval=0.0), "services", None, provider)

    def caller(self, token: str, scheme: str = "Bearer ") -> Principal:
        principal = self.authenticator.caller(METHOD, [("authorization", scheme + token)], dict).principal
        assert principal is not None
        return principal

    def refusal(self, token: str) -> ArchonError | None:
        try:
            self.caller(token)
        except ArchonError as error:
            return error
        return None

    async def known(self) -> None:
        await until(lambda: self.provider._keys is not None)


def settings(issuer: str, **more: Any) -> OpenIdSettings:
    return OpenIdSettings(issuer, frozenset({AUDIENCE}), KINDS, **more)


@asynccontextmanager
async def serving(chosen: OpenIdSettings, keys: TestKeys) -> AsyncIterator[Server]:
    server = Server(Provider(chosen, seconds=2.0), keys)
    loop = BackgroundLoop("keys of tests", server.authenticator.keep_keys, backoff_max=0.2)
    loop.start()
    try:
        yield server
    finally:
        await loop.close()


@pytest.fixture
def keys(tmp_path: Path) -> TestKeys:
    return TestKeys(tmp_path)


@pytest.fixture
async def openid() -> AsyncIterator[OpenIdProvider]:
    async with OpenIdProvider() as provider:
        yield provider


@pytest.fixture
async def server(openid: OpenIdProvider, keys: TestKeys) -> AsyncIterator[Server]:
    async with serving(settings(openid.issuer), keys) as server:
        await server.known()
        yield server


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "EdDSA"])
async def test_a_token_of_the_provider_names_its_caller(openid: OpenIdProvider, keys: TestKeys, algorithm: str) -> None:
    openid.keys = [Key.of(algorithm)]
    async with serving(settings(openid.issuer), keys) as server:
        await server.known()
        caller = server.caller(openid.token())
        assert (caller.name, caller.kind, caller.tenant) == ("alice", Kind.OPERATOR, "default")
        assert caller.expires == pytest.approx(time.time() + 600 + 30, abs=5)


async def test_tokens_of_the_mesh_are_accepted_beside(openid: OpenIdProvider, server: Server) -> None:
    assert server.caller(server.keys.token(Principal(Kind.SERVICE, "x"))).kind is Kind.SERVICE
    assert server.caller(openid.token()).name == "alice"
    eve = Principal(Kind.ADMIN, "eve", expires=time.time() + 60)
    pretended = sign(SigningKey.generate(openid.issuer), eve, "services", now=time.time())
    assert isinstance(server.refusal(pretended), (TokenInvalid, Unavailable))


@pytest.mark.parametrize(
    ("claims", "error", "sentence"),
    [
        ({"aud": "another"}, TokenInvalid, "accepts the audience archon"),
        ({"aud": None}, TokenInvalid, "claims are wrong"),
        ({"exp": 1}, TokenExpired, "archon login"),
        ({"exp": None}, TokenInvalid, "claims are wrong"),
        ({"exp": "soon"}, TokenInvalid, "claims are wrong"),
        ({"nbf": int(time.time()) + 3600}, TokenInvalid, "not valid yet"),
        ({"sub": None}, TokenInvalid, "claims are wrong"),
        ({"groups": ["others"]}, PermissionDenied, "alice has 1 groups in the claim 'groups'"),
        ({"groups": None}, PermissionDenied, "alice has no group"),
        ({"groups": {"devs": True}}, PermissionDenied, "alice has no group"),
        ({"preferred_username": None, "sub": "agent:reviewer"}, TokenInvalid, "no name"),
    ],
)
async def test_a_token_with_a_wrong_claim_is_refused(
    openid: OpenIdProvider, server: Server, claims: dict[str, Any], error: type[ArchonError], sentence: str
) -> None:
    refusal = server.refusal(openid.token(**claims))
    assert type(refusal) is error
    assert sentence in str(refusal)


async def test_a_token_of_another_issuer_is_not_of_the_mesh(openid: OpenIdProvider, server: Server) -> None:
    refusal = server.refusal(openid.token(iss="https://login.example.com"))
    assert type(refusal) is TokenInvalid


def unsigned(token: str, **header: Any) -> str:
    first = base64.urlsafe_b64encode(json.dumps({"typ": "JWT", **header}).encode()).rstrip(b"=").decode()
    return f"{first}.{token.split('.')[1]}."


def by_shared_secret(token: str, secret: bytes) -> str:
    """The claims of a token, signed with a text that everybody knows, as if it were a secret."""
    signed = unsigned(token, alg="HS256", kid="first").rstrip(".")
    return f"{signed}.{base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), 'sha256')).rstrip(b'=').decode()}"


async def test_none_and_shared_secrets_sign_nothing(openid: OpenIdProvider, server: Server) -> None:
    token = openid.token()
    for forged in (
        unsigned(token, alg="none", kid="first"),
        unsigned(token, alg="None", kid="first"),
        unsigned(token, kid="first"),
        by_shared_secret(token, json.dumps(openid.keys[0].jwk).encode()),
        openid.token(key=Key("first", "EdDSA", Key.of("EdDSA").private)),  # the algorithm is not that of the key
        openid.token(key=Key("first")),
        openid.token(headers={"crit": ["x"], "x": 1}),
        token[:-8] + "AAAAAAAA",
        token + "a" * 9_000,
        "a.b.c",
    ):
        assert isinstance(server.refusal(forged), (TokenInvalid, Unavailable)), forged
    assert server.caller(token).name == "alice"


async def test_a_token_is_verified_once_and_refused_at_its_end(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = openid.token(jti="t-1")
    caller = server.caller(token)
    monkeypatch.setattr(Provider, "verify", None)
    assert server.caller(token) is caller
    monkeypatch.setattr("archon.security.authenticator.time.time", lambda: caller.expires)
    for refused in (lambda: server.caller(token), lambda: server.authenticator.check(caller)):
        with pytest.raises(TokenExpired):
            refused()


async def test_a_mesh_can_revoke_a_token_of_the_provider(openid: OpenIdProvider, server: Server) -> None:
    token = openid.token(jti="t-1")
    caller = server.caller(token)
    server.keys.write("t-1")
    for refused in (lambda: server.caller(token), lambda: server.authenticator.check(caller)):
        with pytest.raises(TokenRevoked):
            refused()


async def test_a_token_without_an_id_is_revoked_by_its_digest(openid: OpenIdProvider, server: Server) -> None:
    token = openid.token()
    caller = server.caller(token)
    server.keys.write(caller.token_id)
    with pytest.raises(TokenRevoked):
        server.caller(token)
    assert server.caller(openid.token(iat=1)).name == "alice"


async def test_keys_are_rotated_while_calls_go_on(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    for _ in range(3):
        earlier = openid.token()
        assert server.caller(earlier).name == "alice"
        openid.rotate()
        token = openid.token()
        refusal = server.refusal(token)
        assert type(refusal) is Unavailable
        assert refusal.retry_delay is not None
        await until(lambda token=token: server.refusal(token) is None)  # type: ignore[misc]
        assert server.caller(earlier).name == "alice"


async def test_a_key_that_was_withdrawn_ends_its_tokens(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    token = openid.token()
    assert server.caller(token).name == "alice"
    openid.rotate(keep=False)
    server.refusal(openid.token())  # which has the keys fetched
    await until(lambda: isinstance(server.refusal(token), (TokenInvalid, Unavailable)))


async def test_an_unknown_key_is_asked_for_and_then_refused(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = openid.token(key=Key("unknown"))
    asked = openid.count("/keys")
    refusal = server.refusal(stranger)
    assert type(refusal) is Unavailable
    assert 1.0 <= (refusal.retry_delay or 0.0) <= 11.0
    for number in range(50):  # none of these has the provider asked: it was within the last ten seconds
        assert type(server.refusal(openid.token(key=Key(f"unknown-{number}")))) is Unavailable
    assert openid.count("/keys") == asked
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    await server.provider._fetch()
    assert type(server.refusal(stranger)) is TokenInvalid


async def test_unknown_keys_are_remembered_in_a_bounded_number(openid: OpenIdProvider, server: Server) -> None:
    template = openid.token(key=Key("unknown"))
    for number in range(module.MAX_ASKED + 50):
        server.refusal(unsigned(template, alg="ES256", kid=f"k-{number}") + "c2ln")
    assert len(server.provider._asked) == module.MAX_ASKED


async def test_a_provider_that_is_down_at_the_start_is_waited_for(keys: TestKeys) -> None:
    openid = OpenIdProvider()
    async with openid:
        pass  # it has a port, on which nothing listens now
    async with serving(settings(openid.issuer), keys) as server:
        refusal = server.refusal(openid.token())
        assert type(refusal) is Unavailable
        assert refusal.retry_delay is not None
        assert server.caller(keys.token(Principal(Kind.VIEWER, "vi"))).name == "vi"
        async with openid:
            await until(lambda: server.refusal(openid.token()) is None)


async def test_keys_stay_in_use_while_the_provider_is_down(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    openid.answers[DISCOVERY] = (503, b"")
    with pytest.raises(Unavailable, match="answered 503"):
        await server.provider._fetch()
    assert server.caller(openid.token()).name == "alice"
    monkeypatch.setattr(module, "KEPT", -1.0)
    assert type(server.refusal(openid.token(jti="other"))) is Unavailable


def without_keys(openid: OpenIdProvider) -> None:
    openid.keys = []


FAULTS: Final[dict[str, Callable[[OpenIdProvider], Any]]] = {
    "redirect": lambda openid: openid.answers.update({DISCOVERY: (302, b"")}),
    "redirect of the keys": lambda openid: openid.answers.update({"/keys": (307, b"")}),
    "no json": lambda openid: openid.answers.update({DISCOVERY: (200, b"<html>sign in</html>")}),
    "a list": lambda openid: openid.answers.update({"/keys": (200, [])}),
    "deep json": lambda openid: openid.answers.update({"/keys": (200, b"[" * 100_000)}),
    "huge": lambda openid: openid.answers.update({"/keys": (200, b" " * 600_000)}),
    "not found": lambda openid: openid.answers.update({DISCOVERY: (404, {})}),
    "no keys": without_keys,
    "keys of no list": lambda openid: openid.answers.update({"/keys": (200, {"keys": "x"})}),
    "another issuer": lambda openid: openid.more.update(issuer="https://login.example.com"),
    "no issuer": lambda openid: openid.more.update(issuer=None),
    "no jwks_uri": lambda openid: openid.more.update(jwks_uri=None),
    "a jwks_uri without tls": lambda openid: openid.more.update(jwks_uri="http://keys.example.com/"),
    "a jwks_uri of a file": lambda openid: openid.more.update(jwks_uri="file:///etc/passwd"),
    "a jwks_uri that is a number": lambda openid: openid.more.update(jwks_uri=7),
    "silent": lambda openid: openid.gate.clear(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_provider_costs_its_own_tokens_alone(openid: OpenIdProvider, keys: TestKeys, fault: str) -> None:
    FAULTS[fault](openid)
    provider = Provider(settings(openid.issuer), seconds=0.3)
    with pytest.raises(Unavailable):
        await provider._fetch()
    server = Server(provider, keys)
    assert type(server.refusal(OpenIdProvider.token(openid, key=Key("first")))) is Unavailable
    assert server.caller(keys.token(Principal(Kind.VIEWER, "vi"))).name == "vi"
    assert openid.count("/elsewhere") == 0


async def test_keys_elsewhere_are_not_on_this_machine(openid: OpenIdProvider) -> None:
    from archon.security.openid.endpoints import parsed

    content = {"issuer": "https://login.example.com", "jwks_uri": openid.url("/keys")}
    with pytest.raises(Unavailable, match="address of this machine"):
        parsed(content, "https://login.example.com")


async def test_a_provider_that_is_slow_holds_up_no_call(openid: OpenIdProvider, keys: TestKeys) -> None:
    openid.gate.clear()
    async with serving(settings(openid.issuer), keys) as server:
        await until(lambda: openid.count(DISCOVERY) > 0)
        assert type(server.refusal(openid.token())) is Unavailable
        openid.gate.set()
        await until(lambda: server.refusal(openid.token()) is None)


@pytest.mark.parametrize(
    ("groups", "kind"),
    [
        (["devs", "mesh-admins"], Kind.ADMIN),
        (["guests", "devs"], Kind.OPERATOR),
        (["guests", 7, None], Kind.VIEWER),
        ("devs", Kind.OPERATOR),
    ],
)
async def test_the_first_kind_whose_group_the_caller_has_counts(
    openid: OpenIdProvider, server: Server, groups: Any, kind: Kind
) -> None:
    assert server.caller(openid.token(groups=groups)).kind is kind


async def test_a_claim_may_be_a_path_or_a_url(openid: OpenIdProvider, keys: TestKeys) -> None:
    for claim, claims in (
        ("realm_access.roles", {"realm_access": {"roles": ["devs"]}}),
        ("https://example.com/roles", {"https://example.com/roles": ["devs"]}),
        ("scope", {"scope": "openid devs"}),
    ):
        provider = Provider(settings(openid.issuer, claim=claim))
        await provider._fetch()
        assert provider.verify(openid.token(groups=None, **claims)).kind is Kind.OPERATOR


async def test_everybody_may_have_a_kind(openid: OpenIdProvider) -> None:
    provider = Provider(OpenIdSettings(openid.issuer, frozenset({AUDIENCE}), kinds_in("admin=mesh-admins,viewer=*")))
    await provider._fetch()
    assert provider.verify(openid.token(groups=None)).kind is Kind.VIEWER


async def test_a_tenant_comes_from_its_claim_or_the_call_is_refused(openid: OpenIdProvider) -> None:
    provider = Provider(settings(openid.issuer, tenant_claim="org"))
    await provider._fetch()
    assert provider.verify(openid.token(org="acme")).tenant == "acme"
    for org in (None, "", "a b", 7, ["acme"], "x" * 65):
        with pytest.raises(PermissionDenied, match="alice has no tenant"):
            provider.verify(openid.token(org=org))


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({}, "alice"),
        ({"preferred_username": None, "email": "al@example.com"}, "al@example.com"),
        ({"preferred_username": None, "email": "al@example.com", "email_verified": False}, "f3a1"),
        ({"preferred_username": "service:registry"}, "f3a1"),
        ({"preferred_username": "agent:reviewer", "email": "al@example.com"}, "al@example.com"),
        ({"preferred_username": "anonymous"}, "f3a1"),
        ({"preferred_username": "Jürgen"}, "f3a1"),
        ({"preferred_username": "a\nb"}, "f3a1"),
        ({"preferred_username": "x" * 300}, "f3a1"),
        ({"preferred_username": ["alice"]}, "f3a1"),
    ],
)
async def test_the_name_is_the_first_that_can_be_used(
    openid: OpenIdProvider, server: Server, claims: dict[str, Any], name: str
) -> None:
    assert server.caller(openid.token(**claims)).identity == name


# What real providers and the machines around them do


async def test_clocks_may_differ_by_half_a_minute(openid: OpenIdProvider, server: Server) -> None:
    now = int(time.time())
    assert server.caller(openid.token(nbf=now + 20, iat=now + 20)).name == "alice"
    assert server.caller(openid.token(exp=now - 15)).name == "alice"
    assert type(server.refusal(openid.token(exp=now - 60))) is TokenExpired


@pytest.mark.parametrize(("configured", "published"), [("", "/"), ("/", ""), ("/realms/a", "/realms/a/")])
async def test_the_slash_after_the_issuer_is_the_providers(keys: TestKeys, configured: str, published: str) -> None:
    async with OpenIdProvider(path=published) as openid:
        named = openid.issuer.removesuffix(published) + configured
        async with serving(settings(named), keys) as server:
            await server.known()
            assert server.caller(openid.token()).name == "alice"
            other = openid.issuer.rstrip("/") + ("" if published.endswith("/") else "/")
            assert type(server.refusal(openid.token(iss=other))) is TokenInvalid


async def test_the_audience_may_be_a_list(openid: OpenIdProvider, server: Server) -> None:
    assert server.caller(openid.token(aud=["other", AUDIENCE])).name == "alice"
    assert type(server.refusal(openid.token(aud=["other"]))) is TokenInvalid
    assert type(server.refusal(openid.token(aud=[]))) is TokenInvalid


async def test_keys_without_an_id_are_tried(openid: OpenIdProvider, keys: TestKeys) -> None:
    openid.keys = [Key(""), Key(""), Key.of("RS256")]
    async with serving(settings(openid.issuer), keys) as server:
        await server.known()
        assert server.caller(openid.token(key=openid.keys[1])).name == "alice"
        named = Key("a-name", private=openid.keys[0].private)
        assert server.caller(openid.token(key=named)).name == "alice"
        without = Key("", "RS256", openid.keys[2].private)
        assert server.caller(openid.token(key=without)).name == "alice"
        assert type(server.refusal(openid.token(key=Key("")))) is Unavailable


async def test_other_keys_of_a_set_are_left_out(openid: OpenIdProvider, keys: TestKeys) -> None:
    good = openid.keys[0].jwk
    openid.answers["/keys"] = (
        200,
        {
            "keys": [
                {"kty": "oct", "k": "c2VjcmV0", "kid": "first", "alg": "HS256"},
                {"kty": "RSA", "use": "enc", "kid": "enc", "n": "AQAB", "e": "AQAB"},
                {"kty": "EC", "crv": "P-521", "x": "AA", "y": "AA", "kid": "p521"},
                {"kty": "AKP", "alg": "ML-DSA-44", "kid": "later"},
                {"kty": "RSA", "n": "not base64!", "e": 7, "kid": "broken"},
                {**good, "kid": "private", "d": "AAAA"},
                "no key",
                None,
                {key: value for key, value in good.items() if key not in ("alg", "use")},
            ]
        },
    )
    async with serving(settings(openid.issuer), keys) as server:
        await server.known()
        assert server.provider._keys is not None
        assert [key.key_id for key in server.provider._keys.keys] == ["first"]
        assert server.caller(openid.token()).name == "alice"


async def test_further_keys_of_a_set_are_left_out(openid: OpenIdProvider, server: Server) -> None:
    jwk = openid.keys[0].jwk
    openid.answers["/keys"] = (200, {"keys": [{**jwk, "kid": f"key-{number}"} for number in range(500)]})
    await server.provider._fetch()
    assert server.provider._keys is not None
    assert len(server.provider._keys.keys) == MAX_KEYS


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer  "])
async def test_the_case_of_the_scheme_does_not_count(openid: OpenIdProvider, server: Server, scheme: str) -> None:
    assert server.caller(openid.token(), scheme).name == "alice"


async def test_a_token_with_too_many_groups_is_told_so(openid: OpenIdProvider, server: Server) -> None:
    huge = openid.token(groups=[f"group-{number}" for number in range(1_000)])
    refusal = server.refusal(huge)
    assert type(refusal) is TokenInvalid
    assert "more than 8192 characters" in str(refusal)


async def test_a_proxy_does_not_come_between_this_machine_and_itself(
    openid: OpenIdProvider, keys: TestKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(settings(openid.issuer), keys) as server:
        await server.known()
        assert server.caller(openid.token()).name == "alice"


async def test_a_provider_elsewhere_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line.startswith(b"CONNECT login.example.com:443 "):
            asked.set()
        writer.close()

    proxy = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with proxy:
        port = proxy.sockets[0].getsockname()[1]
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable):
            await Provider(settings("https://login.example.com"), seconds=5.0)._fetch()
    assert asked.is_set()


async def test_an_issuer_may_have_an_address_of_ipv6(keys: TestKeys) -> None:
    try:
        openid = await OpenIdProvider(address="::1").__aenter__()
    except OSError:
        pytest.skip("this machine has no IPv6")
    try:
        assert openid.issuer.startswith("http://[::1]:")
        async with serving(settings(openid.issuer), keys) as server:
            await server.known()
            assert server.caller(openid.token()).name == "alice"
    finally:
        await openid.__aexit__(None, None, None)


async def test_a_new_key_with_the_id_of_an_earlier_one_is_fetched(
    openid: OpenIdProvider, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    openid.keys = [Key("first")]
    assert type(server.refusal(openid.token())) is TokenInvalid
    await until(lambda: server.refusal(openid.token()) is None)


async def test_answers_that_were_not_asked_for_are_not_unpacked(openid: OpenIdProvider) -> None:
    await Provider(settings(openid.issuer))._fetch()
    assert {headers["accept-encoding"] for headers in openid.headers} == {"identity"}
