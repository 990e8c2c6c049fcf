"""An agent as a process, whose scripted model answers from the messages that it gets and knows nothing else.

Without arguments it serves the role ECHO_ROLE. With a query it answers it as a script, with files below ARCHON_HOME;
AGENT_USER is the user. It has no memory if NO_MEMORY is set.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial

from archon_mesh.agent import Agent
from archon_mesh.llm import ModelRequest, ScriptedModel
from archon_mesh.memory.automatic import MemoryMiddleware, open_memory
from archon_mesh.node import Role, serve

FLIGHTS = {"window": "flight B with a window seat", "": "flight A with an aisle seat"}


def answer(request: ModelRequest) -> str:
    query = request.messages[-1].content
    known = "\n".join(message.content for message in request.messages[:-1])
    if "Tokyo" in query:
        return "Tokyo is the capital of Japan; 13,960,000 people live there."
    if "population" in query:
        people = re.search(r"([\d,]+) people", known)
        return people[1] if people else "I do not know whose population you mean."
    if "Oslo" in query:
        return f"I take {FLIGHTS['window' if 'window seat' in known else '']}."
    return "Noted."


def build(name: str) -> Agent:
    agent = Agent(name, model=ScriptedModel(answer), user_id=os.environ.get("AGENT_USER", ""))
    return agent if os.environ.get("NO_MEMORY") else agent.use(MemoryMiddleware(partial(open_memory, os.environ)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(build("clerk").run(sys.argv[1]))
    else:
        role = os.environ["ECHO_ROLE"]
        sys.exit(serve(Role(role, "You help."), build(role)))
