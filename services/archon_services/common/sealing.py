"""Seals texts that are kept elsewhere, such as in a browser or a journal: encrypted and signed, with an age
(Fernet)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from archon.errors import FailedPrecondition
from archon.private_files import private_folder

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

MAX_KEYS: Final = 4
"""Keys of a file: the first seals, and all of them open texts that were sealed before."""


class Sealer:
    """Seals and opens texts with the keys of a file, one a line."""

    def __init__(self, keys: MultiFernet) -> None:
        self._keys = keys

    @classmethod
    def from_file(cls, path: Path) -> Sealer:
        """Reads the keys, and makes a file with one if there is none, for its owner alone. Raises FailedPrecondition if
        the file cannot be used."""
        from cryptography.fernet import Fernet, MultiFernet

        try:
            private_folder(path.parent)
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                pass
            else:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(Fernet.generate_key() + b"\n")
            keys = [Fernet(line) for line in path.read_bytes().split()[:MAX_KEYS]]
        except (OSError, ValueError) as error:
            raise FailedPrecondition(f"cannot use the key {path}: {error}") from None
        if not keys:
            raise FailedPrecondition(f"the file {path} has no key")
        return cls(MultiFernet(keys))

    def seal(self, purpose: str, text: str) -> str:
        """Returns a sealed text, for one purpose: it opens for no other."""
        return self._keys.encrypt(f"{purpose}\n{text}".encode()).decode()

    def open(self, purpose: str, sealed: str, *, seconds: int | None = None) -> str | None:
        """Returns the text; None if it was not sealed for this purpose with one of the keys, or is older than
        `seconds`."""
        from cryptography.fernet import InvalidToken

        try:
            found, _, text = self._keys.decrypt(sealed.encode(), ttl=seconds).decode().partition("\n")
        except (InvalidToken, UnicodeError, ValueError):
            return None
        return text if found == purpose else None
