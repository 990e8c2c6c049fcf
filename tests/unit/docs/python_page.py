"""Writes docs/reference/python.md from the code: `python -m tests.unit.docs.python_page`."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, Final, TypeVar

from tests.unit.docs.tables import REFERENCE, code, table

PAGE: Final = REFERENCE / "python.md"

MODULES: Final = (
    "archon",
    "archon.agent",
    "archon.audit_client",
    "archon.client",
    "archon.errors",
    "archon.failure_kinds",
    "archon.federation",
    "archon.history",
    "archon.lineage",
    "archon.memory",
    "archon.registry",
    "archon.run_view",
    "archon.hooks",
    "archon.schedules",
    "archon.testing",
    "archon.tools",
    "archon.types",
    "archon_mesh",
    "archon_mesh.agent",
    "archon_mesh.declared",
    "archon_mesh.evals",
    "archon_mesh.explain",
    "archon_mesh.llm",
    "archon_mesh.llm.prices",
    "archon_mesh.llm.wrappers",
    "archon_mesh.memory",
    "archon_mesh.memory.automatic",
    "archon_mesh.memory.long_term",
    "archon_mesh.messages",
    "archon_mesh.node",
    "archon_mesh.people",
    "archon_mesh.planning",
    "archon_mesh.playground",
    "archon_mesh.recorded",
    "archon_mesh.recovery",
    "archon_mesh.run_diff",
    "archon_mesh.testing",
    "archon_mesh.tools",
    "archon_mesh.tools.builtin",
    "archon_mesh.tools.composite",
    "archon_mesh.tools.mcp",
    "archon_mesh.tools.messages",
    "archon_mesh.tools.remote",
    "archon_mesh.workflows",
    "archon_services.testing",
)
"""The modules that users import."""

HEAD: Final = """# Python

What programs may import. These modules and names stay: one that is to go is deprecated for a minor version first. All
other modules of Archon may change with each version. The stubs of the contract are `archon.api.<area>.v1`, with a
version of their own ([contract](../contract.md)).

This page is written by `python -m tests.unit.docs.python_page` from the code; a test compares them.
"""


def page() -> str:
    """Renders the page."""
    return HEAD + "".join(map(_section, MODULES))


def names_of(module: Any) -> list[str]:
    """Returns the public names of a module: its `__all__`, else what it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not (name.startswith("_") or isinstance(value, TypeVar))
        and getattr(value, "__module__", "") == module.__name__
    )


def _section(name: str) -> str:
    module = import_module(name)
    rows = [(code(each), _summary(getattr(module, each))) for each in names_of(module)]
    return f"\n## `{name}`\n\n{_summary(module)}\n\n{table(('name', 'what it is'), rows)}"


def _summary(value: Any) -> str:
    """The first sentence of a docstring; of a constant nothing."""
    if not (inspect.ismodule(value) or inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    return text.partition(". ")[0].rstrip(".:") + "." if text else ""


if __name__ == "__main__":
    PAGE.write_text(page())
