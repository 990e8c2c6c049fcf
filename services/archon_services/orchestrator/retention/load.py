"""Loads the rules of retention."""

from __future__ import annotations

from pathlib import Path

from archon_services.orchestrator.retention.rules import RetentionRules, default_rules


def load_retention(path: str, compact_after: float, delete_after: float) -> RetentionRules:
    """Returns the rules in a file, without a path the default rules. Raises NotFound, and InvalidArgument with file,
    line and key."""
    if not path:
        return default_rules(compact_after, delete_after)
    from archon_services.orchestrator.retention.file import read_retention  # with pydantic and YAML

    return read_retention(Path(path), compact_after)
