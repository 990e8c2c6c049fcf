"""Loads a file for a message to a model."""

from __future__ import annotations

from pathlib import Path

from archon.errors import InvalidArgument, MessageTooLarge, NotFound
from archon_mesh.core.media import Media
from archon_mesh.core.media_types import type_of_file
from archon_mesh.llm.media.profile import MAX_BYTES


def load_file(path: Path | str, media_type: str = "", *, max_bytes: int = MAX_BYTES) -> Media:
    """Returns a file of this machine as Media. Its type follows from its first bytes and its name, unless given.

    Raises NotFound if there is no such file, InvalidArgument if it cannot be read or is empty, and MessageTooLarge if
    it has more than `max_bytes`.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}") from None
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from None
    if len(data) > max_bytes:
        raise MessageTooLarge(f"{path} is too large: a file may have {max_bytes:,} bytes")
    if not data:
        raise InvalidArgument(f"{path} is empty")
    return Media(data, media_type or type_of_file(path.name, data), name=path.name)
