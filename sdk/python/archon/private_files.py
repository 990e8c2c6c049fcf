"""Folders and files that only their owner can read, whatever the umask of the process, and that no other user has put
there."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH


def private_folder(folder: Path) -> None:
    """Creates a folder with mode 0700, and its parents. An existing folder keeps its mode."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o700)


def private_file(file: Path) -> None:
    """Creates an empty file with mode 0600. An existing file keeps its mode and content. Raises OSError for a link of
    another user."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        entry = file.lstat()
        if stat.S_ISLNK(entry.st_mode) and entry.st_uid not in (0, os.geteuid()):
            raise OSError(errno.ELOOP, "it is a link of another user", str(file)) from None
        return
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def replace_private_file(file: Path, text: str) -> None:
    """Replaces a file atomically by one with mode 0600; creates its folder. Raises OSError."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    private_folder(file.parent)
    partial.unlink(missing_ok=True)  # of a process that was killed, or a link
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as output:
        output.write(text)
    partial.replace(file)


def fault_of(path: Path) -> str:
    """Returns why another user could change a folder or a file, such as "it belongs to user 1001"; empty if none could
    but root. Follows a link that is this user's or root's. Raises OSError if there is none."""
    for entry in (path.lstat(), path.stat()):
        if entry.st_uid not in (0, os.geteuid()):
            return f"it belongs to user {entry.st_uid}"
    if path.stat().st_mode & WRITABLE:
        return f"other users can write to it (chmod go-w {path})"
    return ""


def faults_within(folder: Path) -> Iterator[str]:
    """Yields the links in a folder, and entries of another user, such as "it contains the link state.json"."""
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = os.lstat(path := Path(parent, name))
            if stat.S_ISLNK(entry.st_mode) or (stat.S_ISREG(entry.st_mode) and entry.st_nlink > 1):
                yield f"it contains the link {path.relative_to(folder)}"
            elif entry.st_uid != os.geteuid():
                yield f"{path.relative_to(folder)} in it belongs to user {entry.st_uid}"
