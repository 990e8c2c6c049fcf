"""Says in one sentence why a service cannot use its database file, with a remedy."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from archon.errors import ArchonError, DataLoss, FailedPrecondition
from archon_services.common.sqlite_writer import is_damage

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_FORBIDDEN_CODES: Final = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_CANTOPEN,
)


def unusable(kind: str, path: Path, error: OSError | sqlite3.Error, setting: str) -> ArchonError:
    """Returns the error of a start. `kind` names the store, `setting` the variable that chooses the file. DataLoss if
    its content is damaged, else FailedPrecondition."""
    reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if isinstance(error, sqlite3.Error) and is_damage(error):
        return DataLoss(f"the {kind} {path} is damaged ({reason}): restore it, or choose another file with {setting}")
    number = error.errno if isinstance(error, OSError) else 0
    if number in _FULL or code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        return FailedPrecondition(f"the {kind} {path} cannot be used: its disk is full; make room and start again")
    if number in _FORBIDDEN or code in _FORBIDDEN_CODES:
        return FailedPrecondition(
            f"the {kind} {path} cannot be used: {reason}; make the file and its folder writable for this user, or "
            f"choose another file with {setting}"
        )
    return FailedPrecondition(f"the {kind} {path} cannot be used: {reason}; choose another file with {setting}")


def _is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
