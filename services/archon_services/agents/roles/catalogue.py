"""Looks up the reference roles by name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from archon.errors import NotFound
from archon_mesh.node import Role

FOLDER: Final = Path(__file__).parent
PYTHON_ROLES: Final = ("implementer", "coordinator")
YAML_ROLES: Final = (
    *("requirements", "designer", "planner"),
    *("researcher", "writer", "editor", "coder", "validator", "arbiter"),
)
WORKFLOW_ROLE: Final = "workflow"
"""Served by `archon_mesh.workflows`, which has no agent."""


def find_role(name: str) -> Role | str:
    """Returns a reference role, or the path of the YAML file that declares it or that `name` is. Raises NotFound."""
    if name in PYTHON_ROLES:
        role = importlib.import_module(f"archon_services.agents.roles.{name}").ROLE
        assert isinstance(role, Role)
        return role
    if name in YAML_ROLES:
        return str(FOLDER / f"{name}.yaml")
    if Path(name).suffix in (".yaml", ".yml"):
        return name
    expected = ", ".join((*YAML_ROLES, *PYTHON_ROLES, WORKFLOW_ROLE))
    raise NotFound(f"unknown role {name!r}: expected one of {expected}, or a YAML file")
