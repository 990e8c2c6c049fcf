"""A certified OpenID provider, which others have written: its tokens at a server, and a login at the command line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import quote

import pytest

from archon.errors import ArchonError, TokenInvalid, Unavailable
from archon.principal import Kind
from archon.security.openid import provider as module
from archon.security.openid.endpoints import Endpoints, discover
from archon.security.openid.http import request_json
from archon.security.openid.provider import Provider
from archon.security.openid.settings import OpenIdSettings, kinds_in
from archon_services.cli.errors import CliError
from archon_services.cli.login.device_flow import Invitation, sign_in
from archon_services.cli.login.grants import granted
from archon_services.cli.login.renewal import refreshed
from archon_services.cli.login.stored import Login
from tests.fixtures.ports import free_ports
from tests.interop import builds, node22

pytestmark = pytest.mark.slow

CLIENT = "archon-cli"


@pytest.fixture(scope="module")
async def issuer() -> AsyncIterator[str]:
    """The address of a provider that runs, as a program in JavaScript."""
    program = builds.OPENID.require().parents[3] / "provider.js"
    node = node22.find()
    assert node is not None
    [port] = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        node, program, str(port), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while (await process.stdout.readline()).strip() != b"ready":
                assert process.returncode is None
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


@pytest.fixture
async def endpoints(issuer: str) -> Endpoints:
    return await discover(issuer)


class Person:
    """A person who signs in with a browser while the command waits for its second poll."""

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints
        self._polls = 0
        self.invitation: Invitation | None = None

    def _invite(self, invitation: Invitation) -> None:
        self.invitation = invitation

    async def _sleep(self, seconds: float) -> None:
        self._polls += 1
        if self._polls == 2 and self.invitation is not None:
            await request_json(f"{self._endpoints.issuer}/approve?user_code={quote(self.invitation.code)}", {})

    async def login(self) -> Login:
        answer = await sign_in(self._endpoints, CLIENT, self._invite, sleep=self._sleep)
        return granted(answer, self._endpoints.issuer, CLIENT)


async def serving(issuer: str) -> Provider:
    """Returns a server's provider that knows the keys."""
    kinds = kinds_in("admin=mesh-admins,operator=devs")
    provider = Provider(OpenIdSettings(issuer, frozenset({CLIENT}), kinds))
    await provider._fetch()
    return provider


async def test_a_person_signs_in_and_is_an_operator(endpoints: Endpoints) -> None:
    person = Person(endpoints)
    login = await person.login()
    assert person.invitation is not None
    assert person.invitation.whole.startswith(person.invitation.url)
    provider = await serving(endpoints.issuer)
    assert provider.issued(login.token)
    caller = provider.verify(login.token)
    assert (caller.identity, caller.kind) == ("alice", Kind.OPERATOR)


async def test_a_login_is_refreshed_by_a_token_that_counts_once(endpoints: Endpoints) -> None:
    login = await Person(endpoints).login()
    second = await refreshed(login)
    assert second.refresh_token not in ("", login.refresh_token)
    provider = await serving(endpoints.issuer)
    assert provider.verify(second.token).identity == "alice"
    with pytest.raises(CliError, match="invalid_grant"):
        await refreshed(login)


async def test_a_revoked_login_is_not_refreshed(endpoints: Endpoints) -> None:
    from archon_services.cli.commands.logout import _revoke

    login = await Person(endpoints).login()
    assert await _revoke(login) == ""
    with pytest.raises(CliError, match="invalid_grant"):
        await refreshed(login)
    assert "status" not in await _revoke(replace(login, client_id="another"))


async def test_an_unknown_client_is_refused_in_a_sentence(endpoints: Endpoints) -> None:
    with pytest.raises(CliError, match="refuses the client 'stranger': invalid_client"):
        await sign_in(endpoints, "stranger", lambda invitation: None)


async def test_a_code_may_be_polled_too_often_and_expires(endpoints: Endpoints) -> None:
    times = iter([0.0, 1.0, 601.0])

    async def sleep(seconds: float) -> None: ...

    with pytest.raises(CliError, match="the code has expired"):
        await sign_in(endpoints, CLIENT, lambda invitation: None, sleep=sleep, now=lambda: next(times))


async def test_keys_are_rotated(endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ASK_AGAIN", 0.0)
    provider = await serving(endpoints.issuer)
    earlier = await Person(endpoints).login()
    assert provider.verify(earlier.token).identity == "alice"
    await request_json(f"{endpoints.issuer}/rotate", {})
    login = await Person(endpoints).login()
    with pytest.raises(Unavailable):
        provider.verify(login.token)
    await provider._fetch()
    assert provider.verify(login.token).identity == "alice"
    refusal: ArchonError | None = None
    for _ in range(2):
        try:
            provider.verify(earlier.token)
        except ArchonError as error:
            refusal = error
        await provider._fetch()
    assert type(refusal) is TokenInvalid
