"""`archon new agent`: writes the files of a new agent."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from archon.identifiers import role_fault
from archon_services.cli.errors import USAGE, CliError
from archon_services.cli.new_project import LANGUAGES, project, steps

new = typer.Typer(no_args_is_help=True)

PYTHON: Final = "python"

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

_PYTHON_AGENT: Final = '''\
"""The agent {name}: `archon serve {name}.py` makes it a role of the mesh, and so does `python {name}.py` if
ARCHON_REGISTRY has the address of a registry. ARCHON_MODEL names its model.
"""

import os
import sys
from datetime import datetime

from archon_mesh.agent import Agent
from archon_mesh.node import Role, serve

ROLE = Role(
    name="{name}",
    description="Answers questions, and knows what time it is.",
    system_prompt="You are {name}, a helpful assistant. Answer briefly. Use your tools where they help.",
    capabilities=["{name}.answer"],
    stateful=True,  # it remembers each session, in whichever process the next task runs
    # depends_on=["requirements"],  # the roles whose answers it receives
)


def time_of_day(city: str = "here") -> str:
    """Returns the time of day on this machine."""
    return f"It is {{datetime.now():%H:%M}} ({{city}})."


def create_agent() -> Agent:
    """Returns the agent; the docstring of each tool tells the model when to use it."""
    return Agent(
        ROLE.name,
        description=ROLE.description,
        system_prompt=ROLE.system_prompt,
        model=os.environ.get("ARCHON_MODEL") or "offline",
        tools=[time_of_day],
    )


if __name__ == "__main__":
    sys.exit(serve(ROLE, create_agent()))
'''


@new.callback()
def _group() -> None:
    """Write the files of a new agent."""


@new.command("agent")
def agent(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The agent's name and role: lower case letters, digits, dashes.")
    ],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder to write the files to.")] = Path(),
    python: Annotated[
        bool, typer.Option("--python", help="Write one Python file instead of YAML, as --lang python does.")
    ] = False,
    lang: Annotated[
        str, typer.Option(metavar="LANGUAGE", help="The language of a program instead: python, go, typescript or java.")
    ] = "",
) -> None:
    """Write the YAML file of an agent and a tool for it, or a program.

    Also writes the JSON Schema of the file for your editor. With --lang python it writes one Python file that has all
    of it; with another language a folder NAME with a program over the SDK of this language, its test, and the files of
    its build. Existing files are never overwritten.
    """
    if fault := role_fault(name):
        raise CliError(fault, code=USAGE)
    if lang and lang not in (PYTHON, *LANGUAGES):
        expected = ", ".join((PYTHON, *LANGUAGES))
        raise CliError(f"unknown language {lang!r}: expected one of {expected}", code=USAGE)
    if lang in LANGUAGES:
        if python:
            raise CliError(f"--python and --lang {lang} are mutually exclusive", code=USAGE)
        files = project(name, folder / name, lang)
        _write(files)
        print(f"Wrote {len(files)} files to {folder / name}.")
        print("\n".join(steps(name, folder / name, lang)))
        return
    python = python or lang == PYTHON
    if python and name in sys.stdlib_module_names | {"archon"}:
        raise CliError(
            f"{name}.py would stand in the place of the module {name}", hint="Choose another name.", code=USAGE
        )
    files = {folder / f"{name}.py": _PYTHON_AGENT.format(name=name)} if python else _yaml_files(name, folder)
    _write(files)
    first = next(iter(files))
    print("Wrote " + ", ".join(map(str, files)) + ".")
    if not python:
        print(f"Chat with it:  archon chat {first}")
    print(f"Serve it:      archon up --detach && archon serve {first}")
    if python:
        print(f"Chat with it:  archon chat {name}, while it is served")


def _yaml_files(name: str, folder: Path) -> dict[Path, str]:
    import json

    from archon_mesh.declared import json_schema

    module = f"{name.replace('-', '_').lower()}_tools"
    return {
        folder / f"{name}.yaml": _YAML.format(name=name, module=module),
        folder / f"{module}.py": _PYTHON.format(name=name),
        folder / f"{name}.schema.json": json.dumps(json_schema(), indent=2) + "\n",
    }


def _write(files: Mapping[Path, str]) -> None:
    """Writes new files. Raises CliError if one exists or cannot be written."""
    if existing := [str(path) for path in files if os.path.lexists(path)]:
        verb = "exists" if len(existing) == 1 else "exist"
        raise CliError(
            f"{', '.join(existing)} already {verb}", hint="Choose another name or another --dir.", code=USAGE
        )
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise CliError(f"cannot write {error.filename or 'the files'}: {error.strerror}") from None
