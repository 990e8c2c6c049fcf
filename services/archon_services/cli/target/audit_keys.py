"""The public keys with which a command verifies histories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from archon.errors import FailedPrecondition
from archon_services.cli.contexts import find_home
from archon_services.cli.errors import CliError

if TYPE_CHECKING:
    from archon.history import PublicKeys


def public_keys(file: Path | None) -> PublicKeys | None:
    """Returns the keys in `file`, by default the keys of the mesh in ARCHON_HOME; None if it has none. Raises CliError
    if the file cannot be used."""
    from archon.history import PublicKeys

    if file is None:
        file = find_home().folder.audit_keys_file
        if not file.exists():
            return None
    try:
        return PublicKeys.read(file)
    except FailedPrecondition as error:
        raise CliError(str(error)) from None
