"""Signing in by a code that a person enters on another device: the device authorization grant of RFC 8628."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from archon.errors import Unavailable
from archon.security.openid.endpoints import Endpoints
from archon.security.openid.http import request_json
from archon_services.cli.errors import FAILED, CliError
from archon_services.cli.login.grants import refusal

GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"

INTERVAL: Final = 5.0
"""Seconds between two polls if the provider names none, and those that `slow_down` adds."""

MIN_INTERVAL: Final = 1.0
MAX_INTERVAL: Final = 60.0
"""Seconds between two polls at least and at most, for any interval that a provider names."""

LONGEST: Final = 3_600.0
"""Seconds for which a code is polled at most."""

_USUAL: Final = ("openid", "profile", "email", "offline_access")
_IF_NAMED: Final = ("groups",)
_URL: Final = re.compile(r"https?://[!-~]{1,2000}")
_CODE: Final = re.compile(r"[!-~](?:[ -~]{0,62}[!-~])?")


@dataclass(frozen=True, slots=True)
class Invitation:
    """The page that a person opens and the code to enter there; `whole` is a page that needs no code, empty if there is
    none. `seconds` is for how long the code is valid."""

    url: str
    code: str
    whole: str
    seconds: float


async def sign_in(
    endpoints: Endpoints,
    client_id: str,
    invite: Callable[[Invitation], None],
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    now: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Asks for a code, shows it by `invite`, and polls until the person has signed in. Returns the answer with the
    tokens. Raises CliError if the person refused, the code has expired, or the provider refuses the client, and
    Unavailable if it cannot be reached."""
    if not endpoints.device_authorization or not endpoints.token:
        raise CliError(
            f"the provider {endpoints.issuer} has no device flow (device_authorization_endpoint)",
            hint="ARCHON_TOKEN or a token file of the context takes a token that you got otherwise.",
        )
    form = {"client_id": client_id, "scope": _scope(endpoints)}
    status, answer = await request_json(endpoints.device_authorization, form)
    if status != 200:
        raise CliError(f"the provider refuses the client {client_id!r}: {refusal(answer, status)[1]}")
    invitation, device_code, interval = _parsed(answer)
    end = now() + invitation.seconds
    invite(invitation)
    form = {"grant_type": GRANT, "device_code": device_code, "client_id": client_id}
    while True:
        await sleep(interval)
        if now() >= end:
            raise _expired()
        try:
            status, answer = await request_json(endpoints.token, form)
        except Unavailable:  # RFC 8628, 3.5: reduce the frequency
            interval = min(2 * interval, MAX_INTERVAL)
            continue
        if status == 200:
            return answer
        code, sentence = refusal(answer, status)
        match code:
            case "authorization_pending":
                pass
            case "slow_down":
                interval = min(interval + INTERVAL, MAX_INTERVAL)
            case "expired_token":
                raise _expired()
            case "access_denied":
                raise CliError("the sign-in was refused in the browser", code=FAILED)
            case _:
                raise CliError(f"the provider ended the sign-in: {sentence}", code=FAILED)


def _scope(endpoints: Endpoints) -> str:
    """Returns the scopes to ask for: of the optional ones those that the provider names, as some refuse others."""
    named = endpoints.scopes
    wanted = [scope for scope in _USUAL if scope == "openid" or not named or scope in named]
    return " ".join([*wanted, *(scope for scope in _IF_NAMED if scope in named)])


def _parsed(answer: dict[str, Any]) -> tuple[Invitation, str, float]:
    """Returns the invitation, the code to poll with, and the seconds between two polls. Raises CliError."""
    url = answer.get("verification_uri") or answer.get("verification_url")  # an earlier name, which Google uses
    whole, code, device_code = (answer.get(k) for k in ("verification_uri_complete", "user_code", "device_code"))
    if not isinstance(device_code, str) or not device_code or not _is(url, _URL) or not _is(code, _CODE):
        raise CliError("the provider answered without a page and a code to sign in with")
    seconds, interval = _number(answer.get("expires_in"), 600.0), _number(answer.get("interval"), INTERVAL)
    invitation = Invitation(str(url), str(code), str(whole) if _is(whole, _URL) else "", min(seconds, LONGEST))
    return invitation, device_code, min(max(MIN_INTERVAL, interval), MAX_INTERVAL)


def _is(value: object, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e9 else default


def _expired() -> CliError:
    return CliError("the code has expired before it was used: `archon login` gets another one", code=FAILED)
