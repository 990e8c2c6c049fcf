"""What strangers and members present with a call: nothing, metadata of all kinds, and tokens that were changed."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from typing import Any, Final

import grpc

from archon.principal import Kind
from tests.adversary.fuzz import Metadata

REFUSED: Final = frozenset({grpc.StatusCode.UNAUTHENTICATED})
TOO_MUCH: Final = frozenset({*REFUSED, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED})
"""Metadata above the limit of a server is refused by gRPC, before anybody asks for a token, and so is a method that the
server does not have."""

TEXTS: Final = (
    *("", " ", "Bearer", "Basic eDp5", "bearer ", "Bearer null", "Bearer undefined", "Negotiate YII=", "x" * 200),
    *("..", "a.b.c", "Bearer ..", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + "." * 4_000, "Bearer " + "A" * 8_000),
    *("Bearer,x", "Digest username=admin", "Bearer Bearer x", "Bearer ' OR 1=1 --", "Bearer ../../../etc/passwd"),
)
KEYS: Final = (
    *(
        "archon-identity",
        "archon-tenant",
        "archon-mesh",
        "archon-timeout",
        "traceparent",
        "tracestate",
        "x-forwarded-for",
    ),
    *("archon-run-id", "grpc-trace-bin", "grpc-tags-bin", "cookie", "x-bin", "authorization-bin", "x-archon-admin"),
)
VALUES: Final = (
    "",
    "default",
    "admin",
    "service:orchestrator",
    "00-" + "f" * 32 + "-" + "0" * 16 + "-01",
    "-1",
    "9" * 400,
)
ALGORITHMS: Final = (
    "none",
    "None",
    "HS256",
    "HS512",
    "RS256",
    "ES256",
    "EdDSA",
    "eddsa",
    "",
    "Ed448",
    7,
    None,
    ["EdDSA"],
)
CLAIMS: Final[tuple[Any, ...]] = (
    *("admin", "", "root", "*", "../x", "\u0000", "é🙂\u202e", 0, -1, 1e308, 2**70, None, True, [], {}, ["services"]),
    *(["a"] * 50, {"a": {"b": {"c": []}}}, "x" * 3_000),
)


def stranger(seed: int, service: str) -> tuple[Metadata, frozenset[grpc.StatusCode] | None]:
    """Presents no token, with any other metadata: each call is refused."""
    dice = random.Random(seed)
    metadata = [("authorization", _text(dice))] if dice.random() < 0.5 else []
    return (*metadata, *_others(dice)), TOO_MUCH


class Changed:
    """Presents tokens that a member never had: each call is refused. `tokens` are the valid ones, by service."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._tokens = tokens

    def __call__(self, seed: int, service: str) -> tuple[Metadata, frozenset[grpc.StatusCode] | None]:
        """Returns the metadata of one call, and the codes that it may end with."""
        dice = random.Random(seed)
        token = changed(dice, self._tokens[service])
        return (("authorization", f"Bearer {token}"), *_others(dice)), TOO_MUCH


class Valid:
    """Presents a valid token of each kind in turn, and any other metadata. `tokens` have the kind and the service."""

    def __init__(self, tokens: Mapping[tuple[Kind, str], str]) -> None:
        self._tokens = tokens
        self._kinds = sorted({kind for kind, _ in tokens})

    def __call__(self, seed: int, service: str) -> tuple[Metadata, frozenset[grpc.StatusCode] | None]:
        """Returns the metadata of one call; its end is that of its input."""
        dice = random.Random(seed)
        token = self._tokens[dice.choice(self._kinds), service]
        return (("authorization", f"Bearer {token}"), *_others(dice)), None


def changed(dice: random.Random, token: str) -> str:
    """Returns a token that differs from a valid one in what it says: never one whose signature is right."""
    head, payload, signature = token.split(".")
    while True:
        match dice.randrange(9):
            case 0:
                out = _cut(dice, token)
            case 1:
                out = _flipped(dice, token)
            case 2:
                header = {**_decoded(head), "alg": dice.choice(ALGORITHMS)}
                out = f"{_encoded(header)}.{payload}.{dice.choice([signature, ''])}"
            case 3:
                out = f"{_encoded({**_decoded(head), 'kid': dice.choice(CLAIMS)})}.{payload}.{signature}"
            case 4:
                claim = dice.choice(["kind", "sub", "aud", "iss", "exp", "iat", "jti", "roles", "tenant", "nbf"])
                out = f"{head}.{_encoded({**_decoded(payload), claim: dice.choice(CLAIMS)})}.{signature}"
            case 5:
                more = dice.choice(["jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "cty", "typ"])
                out = f"{_encoded({**_decoded(head), more: dice.choice(CLAIMS)})}.{payload}.{signature}"
            case 6:
                depth = dice.choice([1, 100, 2_000])
                nested = base64.urlsafe_b64encode(b'{"a":' * depth + b"1" + b"}" * depth).rstrip(b"=").decode()
                out = ".".join(dice.sample([head, nested, signature], 3))
            case 7:
                out = ".".join(
                    dice.choices([head, payload, signature, "", "e30", "bnVsbA", "W10"], k=dice.randint(1, 8))
                )
            case _:
                out = base64.urlsafe_b64encode(dice.randbytes(dice.choice([1, 40, 400, 5_000]))).decode()
        if _parts(out) != _parts(token):
            return out


def _cut(dice: random.Random, token: str) -> str:
    begin = dice.randrange(len(token))
    return token[:begin] + token[dice.randint(begin + 1, len(token)) :]


def _flipped(dice: random.Random, token: str) -> str:
    letters = list(token)
    for _ in range(dice.randint(1, 4)):
        letters[dice.randrange(len(letters))] = chr(dice.randint(0x21, 0x7E))
    return "".join(letters)


def _parts(token: str) -> list[bytes | str]:
    """Returns what the parts of a token say: the last letter of a part has bits that say nothing."""
    parts: list[bytes | str] = []
    for part in token.split("."):
        try:
            parts.append(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        except ValueError:
            parts.append(part)
    return parts


def _decoded(part: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return value


def _encoded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def _text(dice: random.Random) -> str:
    return dice.choice(TEXTS).strip() or "x"


def _others(dice: random.Random) -> Metadata:
    """Returns other metadata: keys that the mesh knows and does not, of texts and bytes, now and then above the limit."""
    chosen: list[tuple[str, str | bytes]] = []
    for _ in range(dice.choice([0, 0, 1, 3, 40])):
        key = dice.choice(KEYS)
        chosen.append((key, dice.randbytes(dice.choice([0, 1, 300])) if key.endswith("-bin") else dice.choice(VALUES)))
    return tuple(chosen)
