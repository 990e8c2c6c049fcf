"""Presents the login of a context, to the services of that context alone."""

from __future__ import annotations

import os

from archon import context as call_context
from archon.loopback import is_loopback
from archon.security.credentials import IDENTITY_KEY, TENANT_KEY, Metadata
from archon.security.tokens import Audience
from archon.security.transport import INSECURE, folder_for
from archon_services.cli.errors import FAILED, CliError
from archon_services.cli.login import threads
from archon_services.cli.login.renewal import Renewal, fresh_login


class LoginTokens:
    """Presents the login of a context, which is kept fresh meanwhile. `for_others`: calls name the identity on whose
    behalf they are made, if there is one; the mesh says whether they may."""

    def __init__(self, renewal: Renewal, *, for_others: bool = True) -> None:
        self._renewal = renewal
        self._for_others = for_others

    def metadata(self) -> Metadata:
        token: Metadata = (("authorization", f"Bearer {self._renewal.login.token}"),)
        call = call_context.current()
        if not self._for_others or call.identity == call_context.ANONYMOUS:
            return token
        return (*token, (TENANT_KEY, call.tenant), (IDENTITY_KEY, call.identity))


def login_tokens(name: str, target: str, audience: Audience, *, for_others: bool = True) -> LoginTokens | None:
    """Returns the login of a context for calls to `target` (host:port), refreshed if needed; None without one, or for
    agents, who take tokens of their mesh alone. Raises CliError if it has expired, or the connection would not be
    encrypted."""
    login = fresh_login(name) if audience == "services" else None
    if login is None:
        return None
    check_encrypted(target)
    renewal = threads.running.get(name)
    if not isinstance(renewal, Renewal):
        renewal = threads.running[name] = Renewal(name, login)
    renewal.login = login
    return LoginTokens(renewal, for_others=for_others)


def check_encrypted(target: str) -> None:
    """Raises CliError if others could read a token on its way to `target` (host:port)."""
    host = target.rpartition(":")[0]
    if is_loopback(host) or os.environ.get(INSECURE, "") or folder_for(target) is not None:
        return
    raise CliError(
        f"the connection to {target} is not encrypted: others could read the token of the login",
        hint=f"Set ARCHON_TLS to the folder of a certificate, or {INSECURE}=1 in a closed network.",
        code=FAILED,
    )
