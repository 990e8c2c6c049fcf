"""The session of a browser: its token, sealed in cookies that no script of a page can read.

A session has no state in the gateway: any replica with the same key serves it, and it ends with its token.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.requests import cookie_parser
from starlette.responses import Response

from archon_services.common.sealing import Sealer

PIECE: Final = 3_800
"""Characters of one cookie: browsers drop cookies above 4,096 bytes with their names and attributes."""

MAX_PIECES: Final = 4

_PURPOSE: Final = "session"


@dataclass(frozen=True, slots=True)
class Session:
    """A login of a browser. `token` goes with its calls; `expires` is in wall seconds."""

    token: str
    expires: float


class Sessions:
    """Reads and writes the cookies of sessions. `secure` says whether browsers reach the gateway by https.

    Cookies of one host are sent to all of its ports: `label` keeps the cookies of several meshes on a machine apart.
    """

    def __init__(self, sealer: Sealer, *, secure: bool, label: str = "") -> None:
        self._sealer, self._secure = sealer, secure
        self.name = f"{'__Host-' if secure else ''}archon_session{f'_{label}' if label else ''}"

    def read(self, headers: Mapping[str, str]) -> Session | None:
        """Returns the session of a request; None if it has none, or one that has ended."""
        cookies = cookie_parser(headers.get("cookie", ""))
        pieces = [cookies.get(self._piece(number), "") for number in range(MAX_PIECES)]
        sealed = "".join(pieces)
        text = self._sealer.open(_PURPOSE, sealed) if sealed else None
        if text is None:
            return None
        content = json.loads(text)
        session = Session(content["token"], content["expires"])
        return session if time.time() < session.expires else None

    def present(self, headers: Mapping[str, str]) -> bool:
        """Returns whether a request has a cookie of a session, valid or not."""
        return self.name in headers.get("cookie", "")

    def write(self, response: Response, session: Session, *, https: bool) -> None:
        """Has a browser keep a session until its token ends. `https` says whether it came that way, such as to a proxy:
        then it sends the session over https alone, whatever the settings."""
        content = json.dumps({"token": session.token, "expires": session.expires})
        sealed = self._sealer.seal(_PURPOSE, content)
        seconds = max(0, math.floor(session.expires - time.time()))
        for number in range(MAX_PIECES):
            piece = sealed[number * PIECE : (number + 1) * PIECE]
            self._set(response, self._piece(number), piece, seconds if piece else 0, https=https)

    def forget(self, response: Response, *, https: bool) -> None:
        """Has a browser drop its session. A browser that came by http keeps cookies that it got by https."""
        for number in range(MAX_PIECES):
            self._set(response, self._piece(number), "", 0, https=https)

    def _piece(self, number: int) -> str:
        return f"{self.name}_{number}" if number else self.name

    def _set(self, response: Response, name: str, value: str, seconds: int, *, https: bool) -> None:
        secure = self._secure or https
        response.set_cookie(name, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")
