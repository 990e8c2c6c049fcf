"""What the goal demands, as numbered requirements."""

from __future__ import annotations

import sys

from archon.registry import Capability
from archon_mesh.node import Role
from archon_services.agents.app import main

ROLE = Role(
    name="requirements",
    description="Extracts numbered requirements from a goal.",
    capabilities=[
        Capability(
            "requirements.extract",
            name="Extract requirements",
            description="Turns a goal in plain words into numbered requirements, one demand each.",
            tags=["requirements", "analysis"],
            examples=["Build a todo app. It must sync across devices. Users should see a history."],
        )
    ],
    system_prompt="""You are the requirements analyst of a team. Extract the requirements from the user's text.

Write one requirement a line, as `R1. ...`, `R2. ...`, in the order of the text. Each states one demand, in words that \
can be tested. Use what the text says and nothing else: where it leaves something open, do not fill the gap. The other \
roles of the team build on your numbering, so write nothing besides the list.""",
)

if __name__ == "__main__":
    sys.exit(main(ROLE))
