"""Signing in by the device flow, over real HTTP: all answers that RFC 8628 names, and others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from archon.errors import Unavailable
from archon.security.openid.endpoints import discover
from archon_services.cli.errors import CliError
from archon_services.cli.login.device_flow import GRANT, Invitation, sign_in
from archon_services.cli.login.grants import granted
from tests.fixtures.openid_provider import OpenIdProvider


@pytest.fixture
async def openid() -> AsyncIterator[OpenIdProvider]:
    async with OpenIdProvider() as provider:
        yield provider


class Person:
    """A person who signs in while time passes at once."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self.invitations: list[Invitation] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    async def signs_in(self, openid: OpenIdProvider) -> dict[str, Any]:
        endpoints = await discover(openid.issuer)
        invite = self.invitations.append
        return await sign_in(endpoints, "archon-cli", invite, sleep=self.sleep, now=lambda: self.time)


async def test_a_code_is_polled_until_the_person_has_signed_in(openid: OpenIdProvider) -> None:
    openid.device = ["authorization_pending", "authorization_pending", "ok"]
    person = Person()
    login = granted(await person.signs_in(openid), openid.issuer, "archon-cli")
    assert (login.issuer, login.refresh_token, login.token.count(".")) == (openid.issuer, "refresh-1", 2)
    assert person.waits == [5.0, 5.0, 5.0]
    assert person.invitations == [Invitation(openid.url("/activate"), "WDJB-MJHT", "", 600.0)]
    assert openid.requests[1] == (
        "/device",
        {"client_id": "archon-cli", "scope": "openid profile email offline_access groups"},
    )
    polls = [form for path, form in openid.requests if path == "/token"]
    assert polls == [{"grant_type": GRANT, "device_code": "device-code", "client_id": "archon-cli"}] * 3


async def test_slow_down_adds_five_seconds_for_good(openid: OpenIdProvider) -> None:
    openid.device = ["slow_down", "authorization_pending", "slow_down", "ok"]
    person = Person()
    await person.signs_in(openid)
    assert person.waits == [5.0, 10.0, 10.0, 15.0]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("expired_token", "the code has expired before it was used: `archon login`"),
        ("access_denied", "the sign-in was refused in the browser"),
        ("invalid_client", "the provider ended the sign-in: invalid_client: it is invalid_client"),
        ("invalid_grant", "the provider ended the sign-in: invalid_grant"),
    ],
)
async def test_other_answers_end_the_sign_in(openid: OpenIdProvider, answer: str, sentence: str) -> None:
    openid.device = ["authorization_pending", answer]
    person = Person()
    with pytest.raises(CliError, match=sentence):
        await person.signs_in(openid)
    assert len(person.waits) == 2


async def test_a_code_that_is_never_used_ends_by_itself(openid: OpenIdProvider) -> None:
    openid.device = ["authorization_pending"]
    person = Person()
    with pytest.raises(CliError, match="the code has expired"):
        await person.signs_in(openid)
    assert (person.time, openid.count("/token")) == (600.0, 119)


async def test_a_provider_that_fails_meanwhile_is_polled_less_often(openid: OpenIdProvider) -> None:
    answers: list[Any] = [(503, b""), (200, b"garbage"), (302, b"")]

    def token(form: dict[str, str]) -> Any:
        return answers.pop(0) if answers else openid._tokens(form)

    openid.answers["/token"] = token
    person = Person()
    await person.signs_in(openid)
    assert person.waits == [5.0, 10.0, 20.0, 40.0]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((400, {"error": "unauthorized_client"}), "refuses the client 'archon-cli': unauthorized_client"),
        ((401, b"no json"), "status 401"),
        ((200, {}), "without a page and a code"),
        ((200, {"device_code": "x", "user_code": "a\x1b[2Jb", "verification_uri": "https://x"}), "without a page"),
        ((200, {"device_code": "x", "user_code": "a", "verification_uri": "javascript:alert(1)"}), "without a page"),
        ((200, {"device_code": 7, "user_code": "a", "verification_uri": "https://x/"}), "without a page"),
    ],
)
async def test_an_answer_without_a_usable_code_is_refused(openid: OpenIdProvider, answer: Any, sentence: str) -> None:
    openid.answers["/device"] = answer
    with pytest.raises(CliError, match=sentence):
        await Person().signs_in(openid)


async def test_odd_numbers_and_the_earlier_name_of_the_page_are_taken(openid: OpenIdProvider) -> None:
    page = {"device_code": "x", "user_code": "a b", "verification_url": "https://x/", "interval": 0, "expires_in": "x"}
    openid.answers["/device"] = (200, {**page, "verification_uri_complete": "https://x/?code=a"})
    person = Person()
    await person.signs_in(openid)
    assert person.invitations == [Invitation("https://x/", "a b", "https://x/?code=a", 600.0)]
    assert person.waits == [5.0]


async def test_a_provider_without_a_device_flow_is_told_so(openid: OpenIdProvider) -> None:
    openid.more["device_authorization_endpoint"] = None
    with pytest.raises(CliError, match="has no device flow"):
        await Person().signs_in(openid)


async def test_only_scopes_that_the_provider_names_are_asked_for(openid: OpenIdProvider) -> None:
    for named, asked in ((["openid", "groups"], "openid groups"), (None, "openid profile email offline_access")):
        openid.more["scopes_supported"] = named
        await Person().signs_in(openid)
        assert [form["scope"] for path, form in openid.requests if path == "/device"][-1] == asked


async def test_secrets_are_not_sent_where_a_provider_redirects(openid: OpenIdProvider) -> None:
    openid.answers["/device"] = (307, b"")
    with pytest.raises(Unavailable, match="redirects"):
        await Person().signs_in(openid)
    assert openid.count("/elsewhere") == 0


async def test_a_token_that_services_cannot_verify_is_no_login(openid: OpenIdProvider) -> None:
    for answer in (
        {"access_token": "opaque"},
        {"id_token": "a.b"},
        {"id_token": openid.token(iss="https://other.example.com")},
        {"id_token": openid.token(exp=None)},
        {"id_token": openid.token() + "\nx: y"},
    ):
        with pytest.raises(CliError, match="no token that services can verify"):
            granted(answer, openid.issuer, "archon-cli")
    with pytest.raises(CliError, match="services take 8,192"):
        granted({"id_token": openid.token(groups=["x" * 9_000])}, openid.issuer, "archon-cli")


async def test_a_description_of_a_provider_controls_no_terminal(openid: OpenIdProvider) -> None:
    openid.answers["/device"] = (400, {"error": "x", "error_description": "\x1b[2J\nhello" + "y" * 1_000})
    with pytest.raises(CliError) as caught:
        await Person().signs_in(openid)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
