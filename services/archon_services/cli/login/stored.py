"""The file of a login: one for each context, beside the file of the contexts."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from archon.private_files import private_file, private_folder, replace_private_file
from archon_services.cli.contexts import contexts_file
from archon_services.cli.errors import FAILED, CliError

_PATIENCE: Final = 30.0
"""Seconds to wait for another command that refreshes the login."""

_INTERVAL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Login:
    """A token of a provider, until when it is valid in wall seconds, and a token to get another one; empty if the
    provider gave none."""

    issuer: str
    client_id: str
    token: str
    expires: float
    refresh_token: str = ""


def login_file(name: str) -> Path:
    """Returns the file of the login of a context. It need not exist."""
    return contexts_file().parent / "logins" / f"{name}.json"


def read_login(name: str) -> Login | None:
    """Returns the login of a context; None if there is none. Raises CliError if its file cannot be used."""
    file = login_file(name)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        login = Login(**content)
        texts = login.issuer, login.client_id, login.token, login.refresh_token
        if not all(isinstance(text, str) for text in texts) or not isinstance(login.expires, int | float):
            raise TypeError("a value has another type")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CliError(f"cannot read {file}: {error.strerror}", code=FAILED) from None
    except (ValueError, TypeError, RecursionError):
        hint = f"`archon login --context {name}` writes it anew."
        raise CliError(f"{file} is invalid", hint=hint, code=FAILED) from None
    return login


def write_login(name: str, login: Login) -> None:
    """Replaces the login of a context, in a file of mode 0600. Raises CliError if it cannot be written."""
    file = login_file(name)
    try:
        private_folder(file.parent.parent)
        replace_private_file(file, json.dumps(asdict(login), indent=1))
    except OSError as error:
        raise CliError(f"cannot write {file}: {error.strerror}", code=FAILED) from None


def remove_login(name: str) -> bool:
    """Removes the login of a context. Returns whether there was one. Raises CliError."""
    file = login_file(name)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CliError(f"cannot remove {file}: {error.strerror}", code=FAILED) from None
    return True


@contextmanager
def only_one(name: str) -> Iterator[None]:
    """Lets one command at a time refresh the login of a context: many providers take a refresh token once, and end the
    login if it comes again. Raises CliError if another one does not end."""
    lock = login_file(name).with_suffix(".lock")
    try:
        private_folder(lock.parent)
        private_file(lock)
        with lock.open("a") as handle:
            end = time.monotonic() + _PATIENCE
            while not _locked(handle.fileno()):
                if time.monotonic() > end:
                    raise CliError(f"another command refreshes the login of the context {name} for too long")
                time.sleep(_INTERVAL)
            yield
    except OSError as error:
        raise CliError(f"cannot lock {lock}: {error.strerror or os.strerror(error.errno or 0)}") from None


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
