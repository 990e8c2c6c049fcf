"""`archon new agent`: writes the files of a new agent."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from archon_services.cli.errors import USAGE, CliError

new = typer.Typer(no_args_is_help=True)

_YAML: Final = """\
# An agent: `archon chat {name}.yaml` talks to it, `archon serve {name}.yaml` makes it a role of the mesh.
# yaml-language-server: $schema=./{name}.schema.json
name: {name}
description: Answers questions, and knows what time it is.
system_prompt: |-
  You are {name}, a helpful assistant. Answer briefly. Use your tools where they help.
model: ${{ARCHON_MODEL:-offline}}
tools:
  - {module}:time_of_day
# middlewares:
#   - import: archon_mesh.agent:ContextCompactionMiddleware
#     params: {{max_context_tokens: 100000, compaction_strategy: summarisation}}
role:
  capabilities: [{name}.answer]
  stateful: true                  # it remembers each session, in whichever process the next task runs
  # depends_on: [requirements]    # the roles whose answers it receives
"""

_PYTHON: Final = '''\
"""Tools of {name}: each function is a tool, and its docstring tells the model when to use it."""

from datetime import datetime


def time_of_day(city: str = "here") -> str:
    """Returns the time of day on this machine."""
    return f"It is {{datetime.now():%H:%M}} ({{city}})."
'''


@new.callback()
def _group() -> None:
    """Write the files of a new agent."""


@new.command("agent")
def agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The agent's name and role: letters, digits, dashes.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder to write the files to.")] = Path(),
) -> None:
    """Write the YAML file of an agent and a tool for it.

    Also writes the JSON Schema of the file for your editor. Existing files are never overwritten.
    """
    import json

    from archon_mesh.declared import json_schema

    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise CliError(
            f"invalid agent name {name!r}", hint="Use letters, digits and dashes, such as my-agent.", code=USAGE
        )
    module = f"{name.replace('-', '_').lower()}_tools"
    files = {
        folder / f"{name}.yaml": _YAML.format(name=name, module=module),
        folder / f"{module}.py": _PYTHON.format(name=name),
        folder / f"{name}.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }
    if existing := [str(path) for path in files if path.exists()]:
        verb = "exists" if len(existing) == 1 else "exist"
        raise CliError(
            f"{', '.join(existing)} already {verb}", hint="Choose another name or another --dir.", code=USAGE
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"cannot write the files: {error}") from None
    first = next(iter(files))
    print("Wrote " + ", ".join(map(str, files)) + ".")
    print(f"Chat with it:  archon chat {first}\nServe it:      archon up --detach && archon serve {first}")
