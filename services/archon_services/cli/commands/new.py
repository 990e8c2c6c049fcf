"""`archon new agent`: a first agent of one's own, that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Final

import typer

from archon_services.cli.errors import USAGE, CliError

new = typer.Typer(help="Write the first files of something of your own.", no_args_is_help=True)

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
  stateful: true                  # it remembers each session, whichever process has the next task
  # depends_on: [requirements]    # whose answers it is given
"""

_PYTHON: Final = '''\
"""What {name} can do beside talking: each function is a tool, its docstring tells the model when to use it."""

from datetime import datetime


def time_of_day(city: str = "here") -> str:
    """Says what time it is on this machine."""
    return f"It is {{datetime.now():%H:%M}} ({{city}})."
'''


@new.callback()
def _group() -> None:
    """Write the first files of something of your own."""


@new.command("agent")
def agent(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, and its role: letters, digits, dashes.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where the files are written.")] = Path(),
) -> None:
    """Write an agent that runs: a YAML file, a module with a tool, and the schema of the file for your editor.

    Files that are there already are left as they are.
    """
    import json

    from archon_mesh.declared import json_schema

    if not re.fullmatch(r"[A-Za-z][\w-]*", name):
        raise CliError(
            f"{name!r} can't be an agent's name", hint="Letters, digits and dashes, as in my-agent.", code=USAGE
        )
    module = f"{name.replace('-', '_').lower()}_tools"
    files = {
        folder / f"{name}.yaml": _YAML.format(name=name, module=module),
        folder / f"{module}.py": _PYTHON.format(name=name),
        folder / f"{name}.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }
    if taken := [str(path) for path in files if path.exists()]:
        raise CliError(f"{', '.join(taken)} is there already", hint="Choose another name, or --dir.", code=USAGE)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in files.items():
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"it can't be written: {error}") from None
    first = next(iter(files))
    print("Wrote " + ", ".join(map(str, files)) + ".")
    print(f"Talk to it:   archon chat {first}\nServe it:     archon up --detach && archon serve {first}")
