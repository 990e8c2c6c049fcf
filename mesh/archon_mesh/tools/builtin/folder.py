"""Files inside one folder, which no path leaves: not by `..`, not by an absolute path, not by a link, and not by a
folder that is replaced by a link meanwhile.

Each part of a path is opened relative to the open folder before it, without following links (openat(2), O_NOFOLLOW), so
that the checked file is the one used.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from archon.errors import (
    ArchonError,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
)

MAX_PARTS: Final = 50
"""Folders of a path."""

MAX_NAME_BYTES: Final = 255
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would block


class Folder:
    """The folder `root`, which must exist. Paths are relative to it, with `/` between their parts.

    Raises InvalidArgument for an invalid path, NotFound, PermissionDenied for links and irregular files.
    """

    def __init__(self, root: str | Path) -> None:
        """Raises FailedPrecondition if `root` is not a folder."""
        try:
            self.root = Path(root).resolve()
            is_folder = self.root.is_dir()
        except (OSError, ValueError):  # such as a current directory that has been removed, or a name that none can have
            is_folder = False
        if not is_folder:
            raise FailedPrecondition(f"{root} is not a folder")

    def read(self, path: str, offset: int, limit: int) -> tuple[bytes, int]:
        """Returns up to `limit` bytes from `offset` on, and the size of the file. Raises InvalidArgument for an offset
        that no file can have."""
        *folders, name = _parts(path)
        with self._opened(folders, path) as folder, _errors(path):
            descriptor = os.open(name, _FILE, dir_fd=folder)
            try:
                size = _regular_file(descriptor, path).st_size
                if not 0 <= offset <= size:
                    where = "before the beginning" if offset < 0 else "behind the end"
                    raise InvalidArgument(f"the offset {offset:,} is {where} of {path}, which has {size:,} bytes")
                return os.pread(descriptor, limit, offset), size
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes) -> None:
        """Creates or replaces a file, whole or not at all, and the folders of its path."""
        *folders, name = _parts(path)
        with self._opened(folders, path, create=True) as folder, _errors(path):
            with suppress(FileNotFoundError):
                descriptor = os.open(name, _FILE, dir_fd=folder)
                try:
                    _regular_file(descriptor, path)
                finally:
                    os.close(descriptor)
            draft = f".{secrets.token_hex(8)}.tmp"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def entries(self, path: str, limit: int) -> tuple[list[tuple[str, int | None]], bool]:
        """Returns the first `limit` entries by name, each with its size in bytes (None for a folder), and whether there
        are more. Links and other special files are left out."""
        parts = _parts(path) if path not in ("", ".", "./") else []
        listed: list[tuple[str, int | None]] = []
        with self._opened(parts, path) as folder, _errors(path):
            for name in sorted(os.listdir(folder)):
                try:
                    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    listed.append((name, None))
                elif stat.S_ISREG(found.st_mode):
                    listed.append((name, found.st_size))
                if len(listed) > limit:
                    return listed[:limit], True
        return listed, False

    @contextmanager
    def _opened(self, folders: list[str], path: str, *, create: bool = False) -> Iterator[int]:
        """The descriptor of the last of these folders, one inside the other."""
        try:
            current = os.open(self.root, _FOLDER)
        except OSError as error:
            raise FailedPrecondition(f"the folder of the tool cannot be used: {error.strerror}") from None
        try:
            for name in folders:
                with _errors(path):
                    if create:
                        with suppress(FileExistsError):
                            os.mkdir(name, 0o755, dir_fd=current)
                    inner = os.open(name, _FOLDER, dir_fd=current)
                os.close(current)
                current = inner
            yield current
        finally:
            os.close(current)


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or "\0" in path or ".." in parts:
        raise InvalidArgument(f"invalid path {path!r}: expected one inside the folder, such as notes/today.md")
    try:
        too_long = len(parts) > MAX_PARTS or any(len(part.encode()) > MAX_NAME_BYTES for part in parts)
    except UnicodeEncodeError:
        raise InvalidArgument(f"invalid path {path!r}: it has characters that are no text") from None
    if too_long:
        raise InvalidArgument(
            f"invalid path: it has more than {MAX_PARTS} parts, or a part of over {MAX_NAME_BYTES} bytes"
        )
    return parts


def _regular_file(descriptor: int, path: str) -> os.stat_result:
    """Refuses devices, pipes and folders; and hard links, which may lead to a file that also stands elsewhere."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionDenied(f"{path} is not a regular file")
    if found.st_nlink > 1:
        raise PermissionDenied(f"{path} has more than one name (hard links)")
    return found


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raises the system's errors as errors of Archon, which name the path inside the folder only."""
    try:
        yield
    except ArchonError:  # some are errors of the system, too
        raise
    except OSError as error:
        match error.errno:
            case errno.ENOENT:
                raise NotFound(f"there is no {path}") from None
            case errno.ELOOP | errno.ENOTDIR:
                raise PermissionDenied(f"{path} leads over a link, or over a file as if it were a folder") from None
            case errno.EISDIR | errno.EACCES | errno.EPERM | errno.EROFS | errno.ENXIO:
                raise PermissionDenied(f"{path} cannot be opened: {error.strerror}") from None
            case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
                raise ResourceExhausted(f"{path} cannot be written: {error.strerror}") from None
            case errno.EEXIST | errno.ENOTEMPTY:
                raise PermissionDenied(f"{path} is a folder") from None
        raise FailedPrecondition(f"{path} cannot be used: {error.strerror}") from None
