"""Keeps a login fresh: before the calls of a command, and in a thread of its own while a command goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from archon.errors import ArchonError, Unavailable
from archon.security.openid.endpoints import discover
from archon.security.openid.http import request_json
from archon_services.cli.errors import UNREACHABLE, CliError
from archon_services.cli.login.grants import expired, granted, refusal
from archon_services.cli.login.stored import Login, only_one, read_login, write_login

MARGIN: Final = 60.0
"""Seconds before its end from which on a token is replaced."""

_RETRY: Final = 10.0
"""Seconds after which a thread tries again."""


def fresh_login(name: str) -> Login | None:
    """Returns the login of a context, refreshed if it ends soon; None if there is none. Blocks for a refresh, up to
    20 s. Raises CliError if it has expired and cannot be refreshed."""
    login = read_login(name)
    if login is None or _lasts(login):
        return login
    with only_one(name):
        login = read_login(name)  # another command may have refreshed it
        if login is None or _lasts(login):
            return login
        return _renewed(name, login)


def _lasts(login: Login) -> bool:
    return login.expires - time.time() > MARGIN


def _renewed(name: str, login: Login) -> Login:
    is_valid = login.expires > time.time()
    if not login.refresh_token:
        if is_valid:
            return login
        raise expired(name)
    try:
        with ThreadPoolExecutor(1) as pool:  # the caller may be inside an event loop
            return pool.submit(_replaced, name, login).result()  # stored even if Ctrl-C ends the command meanwhile
    except Unavailable as error:
        if is_valid:
            return login
        raise CliError(
            f"the login of the context {name} has expired, and its provider cannot be reached: {error}",
            hint=f"Try again, or `archon login --context {name}`.",
            code=UNREACHABLE,
        ) from None
    except (CliError, ArchonError):
        if is_valid:
            return login
        raise expired(name) from None


def _replaced(name: str, login: Login) -> Login:
    renewed = asyncio.run(refreshed(login))
    write_login(name, renewed)
    return renewed


async def refreshed(login: Login) -> Login:
    """Asks the provider for another token. Raises CliError if it refuses, Unavailable if it cannot be reached."""
    endpoints = await discover(login.issuer)
    if not endpoints.token:
        raise CliError(f"the provider {login.issuer} names no token_endpoint")
    form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    status, answer = await request_json(endpoints.token, form)
    if status == 429:
        raise Unavailable(f"{endpoints.token} answered {status}")
    if status != 200:
        raise CliError(f"the provider refuses another token: {refusal(answer, status)[1]}")
    return granted(answer, login.issuer, login.client_id, login)


class Renewal:
    """A thread that refreshes the login of a context while a command goes on."""

    def __init__(self, name: str, login: Login) -> None:
        self.login = login
        self._name = name
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"login of {name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(max(_RETRY, self.login.expires - MARGIN - time.time())):
            try:
                login = fresh_login(self._name)
            except CliError:
                return  # the next call is refused with the remedy
            if login is None:
                return
            self.login = login

    def close(self) -> None:
        """Ends the thread; a request in progress is left to its deadline."""
        self._ended.set()
        self._thread.join(timeout=1.0)
