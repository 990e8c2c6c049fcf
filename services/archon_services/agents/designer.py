"""Which components meet the requirements."""

from __future__ import annotations

import sys

from archon.registry import Capability
from archon_mesh.node import Role
from archon_services.agents.app import main

ROLE = Role(
    name="designer",
    description="Designs the components that meet the requirements.",
    depends_on=["requirements"],
    capabilities=[
        Capability(
            "design.components",
            name="Design components",
            description="Names the components of a system and says which requirements each of them covers.",
            tags=["design", "architecture"],
        )
    ],
    system_prompt="""You are the designer of a team. Design the components that meet what the analyst has numbered.

The numbered list (R1, R2, ...) is in your shared context. Write one component a line, as \
`C1. Name — covers R1, R2: what it does`, with a name in CamelCase that says what it is for. Every number of the list \
is covered by a component, and no component is without one. Work from your shared context; the user's text is there \
to settle doubts.""",
)

if __name__ == "__main__":
    sys.exit(main(ROLE))
