"""Replaces files that only their owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(file: Path, content: bytes) -> None:
    """Replaces a file atomically; it has mode 0600."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
        partial.replace(file)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
