"""Signatures of webhooks: the examples that the schemes publish, and the ways in which they do not match."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Final

import pytest

from archon.errors import DeliveryStale, InvalidArgument
from archon_services.orchestrator.hooks.hook import Scheme
from archon_services.orchestrator.hooks.secrets import checked_secret, key_of
from archon_services.orchestrator.hooks.signatures import MAX_SIGNATURES, Received, signed, verified

SVIX_SECRET: Final = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SVIX: Final = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}
SLACK_BODY: Final = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
EXAMPLES: Final = {
    Scheme.STANDARD: (SVIX_SECRET, SVIX, b'{"test": 2432232314}'),
    Scheme.GITHUB: (
        "It's a Secret to Everybody",
        {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
        b"Hello, World!",
    ),
    Scheme.SLACK: (
        "8f742231b10e8888abcd99yyyzzz85a5",
        {
            "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
            "x-slack-request-timestamp": "1531420618",
        },
        SLACK_BODY.encode(),
    ),
}
KEY: Final = b"k" * 32
SECRET: Final = "whsec_" + base64.b64encode(KEY).decode()
BODY: Final = b'{"a": 1}'


def is_valid(scheme: Scheme, secret: str, headers: dict[str, str], body: bytes) -> bool:
    return verified(scheme, [key_of(scheme, secret)], Received(headers, body)) is not None


@pytest.mark.parametrize("scheme", EXAMPLES)
def test_the_published_example_of_a_scheme_is_valid(scheme: Scheme) -> None:
    secret, headers, body = EXAMPLES[scheme]
    assert is_valid(scheme, secret, headers, body)
    assert not is_valid(scheme, secret, headers, body + b" ")
    other = "whsec_" + base64.b64encode(b"x" * 24).decode() if scheme is Scheme.STANDARD else secret + "x"
    assert not is_valid(scheme, other, headers, body)


def test_stripe_signs_time_and_body_and_its_old_scheme_counts_not() -> None:
    digest = hmac.new(b"whsec_stripe_stripe", b"1614265330." + BODY, hashlib.sha256).hexdigest()
    good = {"stripe-signature": f"t=1614265330,v1={'0' * 64},v1={digest},v0={'1' * 64}"}
    assert is_valid(Scheme.STRIPE, "whsec_stripe_stripe", good, BODY)
    for header in (f"t=1614265331,v1={digest}", f"v1={digest}", f"t=1614265330,v0={digest}", "t=1614265330,v1=zz", ""):
        assert not is_valid(Scheme.STRIPE, "whsec_stripe_stripe", {"stripe-signature": header}, BODY)


@pytest.mark.parametrize("scheme", Scheme)
def test_a_signed_delivery_is_valid_for_its_scheme_alone(scheme: Scheme) -> None:
    secret = SECRET if scheme is Scheme.STANDARD else "s" * 32
    headers = signed(scheme, secret, BODY, 1_000.0)
    for other in Scheme:
        assert is_valid(other, secret, headers, BODY) is (other is scheme)


def test_one_of_several_signatures_is_enough_up_to_a_bound() -> None:
    good = signed(Scheme.STANDARD, SECRET, BODY, 1_000.0)
    wrong = "v1," + base64.b64encode(b"0" * 32).decode()

    def with_signatures(*signatures: str) -> bool:
        headers = {**good, "webhook-signature": " ".join(signatures)}
        return is_valid(Scheme.STANDARD, SECRET, headers, BODY)

    right = good["webhook-signature"]
    assert with_signatures(wrong, right)
    assert with_signatures(*[wrong] * (MAX_SIGNATURES - 1), right)
    assert not with_signatures(*[wrong] * MAX_SIGNATURES, right)
    assert not with_signatures(wrong)
    assert not with_signatures(right.replace("v1,", "v2,"))
    assert not with_signatures(right[:-4])


def test_both_secrets_of_a_rotation_are_valid() -> None:
    received = Received(signed(Scheme.STANDARD, SECRET, BODY, 1_000.0), BODY)
    assert verified(Scheme.STANDARD, [b"new" * 8, KEY], received) is not None
    assert verified(Scheme.STANDARD, [b"new" * 8], received) is None
    assert verified(Scheme.STANDARD, [], received) is None


def test_headers_of_svix_stand_for_the_standard_ones() -> None:
    headers = {name.replace("webhook-", "svix-"): value for name, value in SVIX.items()}
    assert is_valid(Scheme.STANDARD, SVIX_SECRET, headers, b'{"test": 2432232314}')


def test_an_id_and_a_time_are_needed_where_they_are_signed() -> None:
    good = signed(Scheme.STANDARD, SECRET, BODY, 1_000.0)
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        assert not is_valid(Scheme.STANDARD, SECRET, {**good, name: ""}, BODY)
    digest = base64.b64encode(hmac.new(KEY, b".1e3." + BODY, hashlib.sha256).digest()).decode()
    odd = {"webhook-id": "", "webhook-timestamp": "1e3", "webhook-signature": f"v1,{digest}"}
    assert not is_valid(Scheme.STANDARD, SECRET, odd, BODY)


@pytest.mark.parametrize("late", [-301.0, 301.0])
def test_a_time_5_min_away_is_stale_in_either_direction(late: float) -> None:
    proof = verified(Scheme.STANDARD, [KEY], Received(signed(Scheme.STANDARD, SECRET, BODY, 10_000.0), BODY))
    assert proof is not None
    proof.check_time(10_000.0 + late / 301 * 300)
    with pytest.raises(DeliveryStale, match=r"301 s (ago|in the future)"):
        proof.check_time(10_000.0 + late)


def test_secrets_that_no_sender_has_are_refused() -> None:
    for scheme, secret in (
        (Scheme.STANDARD, "whsec_not base64"),
        (Scheme.STANDARD, "whsec_" + base64.b64encode(b"short").decode()),
        (Scheme.STRIPE, ""),
        (Scheme.SLACK, ""),
        (Scheme.GITHUB, "short"),
        (Scheme.GITHUB, " " + "x" * 20),
        (Scheme.GITHUB, "ü" * 20),
        (Scheme.GITHUB, "x" * 513),
    ):
        with pytest.raises(InvalidArgument, match="secret"):
            checked_secret(scheme, secret)
    assert checked_secret(Scheme.GITHUB, EXAMPLES[Scheme.GITHUB][0]) == EXAMPLES[Scheme.GITHUB][0]
    assert len(key_of(Scheme.STANDARD, checked_secret(Scheme.STANDARD, ""))) == 32
    assert checked_secret(Scheme.GITHUB, "") != checked_secret(Scheme.GITHUB, "")
