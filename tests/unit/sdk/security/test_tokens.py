"""Tokens: signed by a mesh, verified by its public keys."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from pathlib import Path

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archon.errors import FailedPrecondition, TokenExpired, TokenInvalid, TokenRevoked
from archon.principal import Kind, Principal
from archon.security.keys import KeyFile, KeySet, SigningKey
from archon.security.tokens import MAX_TOKEN, claims_of, sign, verify
from tests.fixtures.tokens import MESH, TestKeys

ALICE = Principal(Kind.OPERATOR, "alice", "acme", token_id="t-1")


@pytest.fixture
def keys(tmp_path: Path) -> TestKeys:
    return TestKeys(tmp_path)


def known(keys: TestKeys) -> KeySet:
    return KeySet.parse(keys.file.read_text())


def test_a_token_says_who_calls(keys: TestKeys) -> None:
    agent = Principal(Kind.AGENT, "reviewer", roles=frozenset({"reviewer", "critic"}))
    for principal in (ALICE, agent):
        token = keys.token(principal)
        verified = verify(token, known(keys), "services")
        assert replace(verified, expires=0.0, token_id="") == replace(principal, expires=0.0, token_id="")
        assert verified.expires > time.time()
        assert verified.token_id == claims_of(token)["jti"] != ""


def test_the_audience_of_a_token_counts(keys: TestKeys) -> None:
    with pytest.raises(TokenInvalid, match="not for the services"):
        verify(keys.token(ALICE, "agents"), known(keys), "services")
    with pytest.raises(TokenInvalid, match="not for the agents"):
        verify(keys.token(ALICE), known(keys), "agents")


def test_a_token_of_another_mesh_is_refused(keys: TestKeys, tmp_path: Path) -> None:
    other = TestKeys(tmp_path, "another-mesh")
    with pytest.raises(TokenInvalid, match="another mesh than mesh-of-tests"):
        verify(other.token(ALICE), known(keys), "services")
    same_name = SigningKey(other.key.private, MESH)
    with pytest.raises(TokenInvalid):
        verify(
            sign(same_name, replace(ALICE, expires=time.time() + 9), "services", now=time.time()),
            known(keys),
            "services",
        )


def test_a_known_key_does_not_sign_for_another_mesh(keys: TestKeys) -> None:
    forged = SigningKey(keys.key.private, "another-mesh")
    token = sign(forged, replace(ALICE, expires=time.time() + 9), "services", now=time.time())
    with pytest.raises(TokenInvalid):
        verify(token, known(keys), "services")


def test_an_expired_or_revoked_token_is_refused(keys: TestKeys) -> None:
    with pytest.raises(TokenExpired):
        verify(keys.token(ALICE, seconds=-1), known(keys), "services")
    token = keys.token(ALICE)
    keys.write("t-0", "t-1")
    with pytest.raises(TokenRevoked):
        verify(token, known(keys), "services")


def _claims(**changes: object) -> dict[str, object]:
    now = int(time.time())
    whole = {"iss": MESH, "sub": "eve", "kind": "admin", "aud": "services", "iat": now, "exp": now + 60, "jti": "x"}
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "root"},
        {"kind": None},
        {"kind": ["admin"]},
        {"roles": "x"},
        {"roles": [1]},
        {"exp": None},
        {"jti": None},
        {"sub": None},
        {"iss": None},
        {"aud": None},
        {"exp": "soon"},
        {"sub": 7},
        {"sub": "service:orchestrator"},
        {"sub": "agent:reviewer"},
        {"sub": "eve\n"},
        {"iss": [MESH]},
    ],
)
def test_claims_that_are_missing_or_wrong_are_refused(keys: TestKeys, changes: dict[str, object]) -> None:
    headers = {"kid": keys.key.key_id}
    token = jwt.encode(_claims(), keys.key.private, algorithm="EdDSA", headers=headers)
    assert verify(token, known(keys), "services").name == "eve"
    payload = base64.urlsafe_b64encode(json.dumps(_claims(**changes)).encode()).rstrip(b"=").decode()
    head = token.split(".")[0]
    signature = keys.key.private.sign(f"{head}.{payload}".encode())
    signed = f"{head}.{payload}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
    with pytest.raises(TokenInvalid):
        verify(signed, known(keys), "services")


def test_other_algorithms_are_refused(keys: TestKeys) -> None:
    headers = {"kid": keys.key.key_id}
    public = keys.key.public["x"]
    for token in (
        jwt.encode(_claims(), "", algorithm="none", headers=headers),
        jwt.encode(_claims(), public * 2, algorithm="HS256", headers=headers),
    ):
        with pytest.raises(TokenInvalid):
            verify(token, known(keys), "services")


def test_a_changed_token_is_refused(keys: TestKeys) -> None:
    head, payload, signature = keys.token(ALICE).split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    forged = base64.urlsafe_b64encode(json.dumps({**claims, "kind": "admin"}).encode()).rstrip(b"=").decode()
    with pytest.raises(TokenInvalid):
        verify(f"{head}.{forged}.{signature}", known(keys), "services")


KEY = SigningKey.generate(MESH)
KNOWN = KeySet(MESH, {KEY.key_id: KEY.private.public_key()})


@given(st.one_of(st.text(), st.from_regex(r"[A-Za-z0-9_-]{0,40}(\.[A-Za-z0-9_-]{0,40}){0,4}")))
def test_no_text_breaks_the_verification(text: str) -> None:
    with pytest.raises(TokenInvalid):
        verify(text, KNOWN, "services")


def test_a_long_token_is_refused_unread() -> None:
    with pytest.raises(TokenInvalid, match="characters"):
        verify("x" * (MAX_TOKEN + 1), KNOWN, "services")
    nested = base64.urlsafe_b64encode(("[" * 3000).encode()).decode()
    with pytest.raises(TokenInvalid):
        verify(f"{nested}.{nested}.x", KNOWN, "services")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"keys": []}',
        '{"keys": [], "issuer": "x"}',
        '{"keys": [{"kty": "OKP"}], "issuer": "x"}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "short"}], "issuer": "x"}',
        '{"keys": [7]}',
        '{"keys": [{"kty": "RSA", "kid": "1", "n": "x", "e": "AQAB"}], "issuer": "x"}',
        "[" * 100000,
    ],
)
def test_a_file_that_is_no_key_set_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(FailedPrecondition, match="cannot use the file of public keys"):
        KeyFile(tmp_path / "keys.json").read()


def test_a_signing_key_that_is_damaged_is_refused() -> None:
    text = SigningKey.generate(MESH).text
    assert SigningKey.parse(text).issuer == MESH
    for damaged in ("", "{}", text[:-20], text.replace('"d"', '"e"')):
        with pytest.raises(FailedPrecondition):
            SigningKey.parse(damaged)


def test_a_changed_file_is_read_again_and_a_damaged_one_leaves_the_last_keys(keys: TestKeys) -> None:
    file = KeyFile(keys.file, interval=0.0)
    first = file.read()
    assert file.read() is first
    keys.write("t-1")
    assert file.read().revoked == {"t-1"}
    keys.file.write_text("{")
    assert file.read().revoked == {"t-1"}
    keys.file.unlink()
    assert file.read().revoked == {"t-1"}
    with pytest.raises(FailedPrecondition):
        KeyFile(keys.file).read()
