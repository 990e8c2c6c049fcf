"""The table of commands agrees with their modules, which are imported only when they are called."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from typing import Any, Final

import pytest
import typer.main

from archon_services.cli import commands
from archon_services.cli.command_table import COMMANDS, load_command
from archon_services.cli.main import app

STEPS: Final = {
    "help": "run(['--help'])",
    "completion of names": "complete('archon r')",
    "an unknown command": "run(['stauts'])",
    "status": "run(['status'])",
    "options of status": "complete('archon status --')",
}
"""What is done, in one process, and in this order."""

PROGRAM: Final = f"""
import contextlib, json, os, sys
from archon_services.cli.main import app

def run(arguments):
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(BaseException):
        app(arguments, prog_name="archon", standalone_mode=False)

def complete(words):
    os.environ.update(_ARCHON_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=words)
    run([])
    del os.environ["_ARCHON_COMPLETE"]

imported = {{}}
for name, step in {STEPS!r}.items():
    exec(step)
    imported[name] = [module for module in sys.modules if module.startswith("archon_services.cli.commands.")]
print(json.dumps(imported))
"""


@pytest.fixture(scope="module")
def group() -> Any:
    return typer.main.get_command(app)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_of_help_is_that_of_the_docstring(group: Any, name: str) -> None:
    command = group.get_command(None, name)
    assert command.name == name
    assert COMMANDS[name][1] == command.get_short_help_str(1_000)


def test_the_table_has_each_module_of_commands() -> None:
    loaded = {name: load_command(name) for name in COMMANDS}
    named = {target.partition(":")[0] for target, _ in COMMANDS.values()} | {"memory"}  # which `long_term` imports
    assert {module.name for module in pkgutil.iter_modules(commands.__path__)} == named
    assert len({id(command) for command in loaded.values()}) == len(COMMANDS)


def test_commands_are_imported_when_they_are_called() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Show the processes of the mesh in ARCHON_HOME." in done.stderr
    assert '"restart":' in done.stderr
    assert '"--json":' in done.stderr
    own = ["archon_services.cli.commands.status"]
    assert json.loads(done.stdout) == dict(zip(STEPS, ([], [], [], own, own), strict=True))
