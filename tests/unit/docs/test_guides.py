"""The guides name commands, variables, and fields of the contract that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from archon_services.cli.checks.environment import known_variables
from archon_services.cli.main import app

ROOT: Final = Path(__file__).parents[3]
GUIDES: Final = ("clients", "local-models", "production", "stubs", "upgrade-and-backup")
NOT_OF_THE_CONTRACT: Final = {"round_robin"}
"""Names of gRPC in the guide to clients."""


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text()


def unknown_options(command: Any, arguments: str) -> set[str]:
    """Returns the options among `arguments` that a command, or its subcommand, does not have."""
    words = arguments.split()
    subcommands = getattr(command, "commands", {})
    command = subcommands.get(words[0], command) if words else command
    return set(re.findall(r"(?<= )--[a-z-]+", arguments)) - {
        option for parameter in command.params for option in parameter.opts
    }


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_names_variables_that_exist(name: str) -> None:
    assert set(re.findall(r"\bARCHON_[A-Z_]+[A-Z]\b", page(name))) <= known_variables()


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_names_commands_and_options_that_exist(name: str) -> None:
    group: Any = typer.main.get_command(app)
    used = re.findall(r"(?:`|^|&& )archon ([a-z]+)((?: [^\s`&|]+)*)", page(name), re.M)
    unknown = {f"{name} {words}": unknown_options(group.get_command(None, name), words) for name, words in used}
    assert {command: options for command, options in unknown.items() if options} == {}


@pytest.mark.parametrize("name", ["clients", "stubs"])
def test_a_guide_names_fields_of_the_contract(name: str) -> None:
    contract = "\n".join(path.read_text() for path in (ROOT / "protos").rglob("*.proto"))
    fields = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", page(name))) | set(re.findall(r'"([a-z_]+)":', page(name)))
    assert {field for field in fields if not re.search(rf"\b{field}\b", contract)} <= NOT_OF_THE_CONTRACT
    rpcs = set(re.findall(r"OrchestratorService/(\w+)", page(name)))
    assert {rpc for rpc in rpcs if f"rpc {rpc}(" not in contract} == set()
