"""Where the reference roles are: two are written in Python, two in YAML alone."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

from archon.errors import NotFound
from archon_mesh.declared import load_agent
from archon_mesh.node import Role

HERE: Final = Path(__file__).parent
IN_PYTHON: Final = ("implementer", "coordinator")
IN_YAML: Final = ("requirements", "designer")


def find_role(name: str) -> Role | str:
    """A role, or the path of the file that declares it. Raises NotFound."""
    if name in IN_PYTHON:
        role = importlib.import_module(f"archon_services.agents.{name}").ROLE
        assert isinstance(role, Role)
        return role
    if name in IN_YAML:
        return str(HERE / f"{name}.yaml")
    if Path(name).suffix in (".yaml", ".yml"):
        return name
    raise NotFound(f"there is no role {name!r}; there are {', '.join(IN_YAML + IN_PYTHON)}, or name a YAML file")


def reference_role(name: str) -> Role:
    """One of them, as it registers. Raises NotFound."""
    found = find_role(name)
    return load_agent(found).role if isinstance(found, str) else found
