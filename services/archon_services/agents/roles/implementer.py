"""The implementer: writes the code for a design."""

from __future__ import annotations

from archon.registry import Capability
from archon_mesh.node import Role

ROLE = Role(
    name="implementer",
    description="Plans and writes the code for the design.",
    depends_on=["requirements", "designer"],
    capabilities=[
        Capability(
            "code.implement",
            name="Implement",
            description="Turns requirements and a design into a plan and Python code.",
            tags=["code", "python"],
            output_modes=["text/plain"],
        )
    ],
    system_prompt="""You are the implementer of a team. Write the code for the components in your shared context.

First a plan: one line per component, with the numbers (C1, R1, ...) of what it builds and what it meets. Then the \
code in one Python block: a class or a function per component, each with a comment that cites those numbers. Leave \
out nothing that is numbered and add nothing that is not. Where the design says too little, keep to the simplest \
code that meets the requirement.""",
)
