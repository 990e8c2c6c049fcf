"""The rules of the mesh by which people are asked: loaded once, and part of each submission that they may apply to."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from archon_mesh.core.people import InterceptionRule


def load_mesh_rules(path: str) -> tuple[InterceptionRule, ...]:
    """Returns the rules in a file, none without a path. Raises NotFound, and InvalidArgument with file, line and
    key."""
    if not path:
        return ()
    from archon_mesh.declared.rules import load_rules  # with pydantic and YAML, which only this needs

    return load_rules(Path(path))


def applicable_rules(rules: Sequence[InterceptionRule], tenant: str) -> tuple[InterceptionRule, ...]:
    """Returns the rules that may apply to the runs of a tenant."""
    return tuple(rule for rule in rules if not rule.condition.tenant or fnmatchcase(tenant, rule.condition.tenant))
