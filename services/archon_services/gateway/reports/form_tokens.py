"""Tokens of forms: a form of one document for one caller, sealed. A page elsewhere that makes a browser send a form has
none (OWASP, Cross-Site Request Forgery Prevention)."""

from __future__ import annotations

import json
from typing import Final

from archon.errors import PermissionDenied
from archon.security.authenticator import Caller
from archon_services.common.sealing import Sealer

FIELD: Final = "csrf_token"
"""The name of the field of a form."""

SECONDS: Final = 12 * 3_600
"""The age up to which a form can be sent."""

_PURPOSE: Final = "form"


class FormTokens:
    """Makes and checks tokens with the key of the sessions."""

    def __init__(self, sealer: Sealer) -> None:
        self._sealer = sealer

    def make(self, caller: Caller, path: str) -> str:
        """Returns the token of a form that the caller sends to a path."""
        return self._sealer.seal(_PURPOSE, json.dumps([caller.tenant, caller.identity, path]))

    def check(self, caller: Caller, path: str, token: str) -> None:
        """Raises PermissionDenied if the token is of another form, of another caller, or too old."""
        wanted = json.dumps([caller.tenant, caller.identity, path])
        if self._sealer.open(_PURPOSE, token, seconds=SECONDS) != wanted:
            raise PermissionDenied("the form is too old, or not from this document: send it again")
