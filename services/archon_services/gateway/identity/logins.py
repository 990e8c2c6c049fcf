"""One-time logins of browsers on the machine of a mesh: a code in an address is worth a token, once and for minutes.

Each is a file of mode 0600 in a folder that only the user of the mesh can read: its name is the hash of the code, its
content the token. The command that prints the address writes it, and the gateway takes it away.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from pathlib import Path
from typing import Final

from archon.errors import LinkRefused
from archon.private_files import fault_of, private_folder

SECONDS: Final = 600.0
"""The time in which a code can be used."""

MAX_CODE: Final = 100


def issue(folder: Path, token: str) -> str:
    """Returns a code that is worth a token, and removes codes whose time has passed."""
    private_folder(folder)
    for file in folder.iterdir():
        try:
            if time.time() - file.stat().st_mtime > SECONDS:
                file.unlink(missing_ok=True)
        except OSError:
            pass
    code = secrets.token_urlsafe(24)
    descriptor = os.open(folder / _name(code), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file_of_token:
        file_of_token.write(token)
    return code


def redeem(folder: Path, code: str) -> str:
    """Returns the token of a code, which is worth nothing from then on. Raises LinkRefused if it is worth nothing, and
    if others could have written it."""
    if len(code) <= MAX_CODE and folder.is_dir() and not fault_of(folder):
        file = folder / _name(code)
        taken = file.with_suffix(f".{secrets.token_hex(8)}")
        try:
            file.rename(taken)  # of two requests with the code, one gets the file
            young = time.time() - taken.stat().st_mtime <= SECONDS
            token = taken.read_text().strip()
            taken.unlink()
        except OSError:
            pass
        else:
            if young and token:
                return token
    raise LinkRefused("this link was used before, or has expired: `archon token --browser` prints another one")


def _name(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()
