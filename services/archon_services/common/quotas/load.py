"""Loads the quotas of a mesh."""

from __future__ import annotations

from pathlib import Path

from archon_services.common.quotas.quota import Quotas


def load_quotas(path: str) -> Quotas | None:
    """Returns the quotas in a file, None without a path. Raises NotFound, and InvalidArgument with file, line and
    key."""
    if not path:
        return None
    from archon_services.common.quotas.file import read_quotas  # with pydantic and YAML, which only this needs

    return read_quotas(Path(path))
