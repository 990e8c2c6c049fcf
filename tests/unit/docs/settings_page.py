"""Writes docs/reference/settings.md from the code: `python -m tests.unit.docs.settings_page`.

The sources are the settings classes of the services, the settings of the SDK's agents, the options of the command line,
and the variables of `archon_services.common.variables`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Final, get_type_hints
from unittest.mock import patch

import typer
from pydantic.fields import FieldInfo
from typer.models import OptionInfo

from archon.agent import AgentSettings
from archon_services.agents.settings import AgentServiceSettings
from archon_services.cli.command_table import COMMANDS, load_command
from archon_services.common import variables
from archon_services.common.settings import ServiceSettings
from archon_services.common.variables import VARIABLES
from archon_services.gateway.settings import GatewaySettings
from archon_services.memory.settings import MemorySettings
from archon_services.orchestrator.settings import OrchestratorSettings
from archon_services.registry.settings import RegistrySettings
from tests.unit.docs.tables import REFERENCE, code, kind_of, table

PAGE: Final = REFERENCE / "settings.md"

HEAD: Final = """# Settings

Every `ARCHON_*` environment variable, by the process that reads it. An empty default is shown as nothing.

A service and a role's process read a setting from a flag (`--max-runs 100`), else from the variable
(`ARCHON_MAX_RUNS=100`), else from the file in `ARCHON_CONFIG` or `--config`, else the default applies. The file has one
section per service and `common` for all:

```yaml
common: {log_level: debug}
orchestrator: {max_runs: 100}
```

`archon doctor` reports unknown names and invalid values. [Models](../models.md) are configured with
`OPENAI_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_SERVER`, `OPENAI_MEDIA`, `ANTHROPIC_API_KEY` and `ANTHROPIC_BASE_URL`,
too, and
[metrics](../observability.md#export) with OpenTelemetry's standard variables (`OTEL_*`).

This page is written by `python -m tests.unit.docs.settings_page` from the code; a test compares them.
"""

COMMAND_LINE: Final = """The program `archon`. `archon up` passes its environment on to the processes that it starts, except for what it
decides itself: `ARCHON_HOST`, `ARCHON_PORT`, `ARCHON_ADVERTISE`, `ARCHON_READY_FILE`, `ARCHON_LOG_FORMAT` (`json`),
`ARCHON_DB`, `ARCHON_ETCD` and `ARCHON_DEPENDS_ON`."""

ROLE: Final = """`python -m archon_services.agents ROLE`. `archon serve` reads these variables, too, except for the registry and the
address, which are its options."""

COLUMNS: Final = ("variable", "value", "default", "meaning")

Row = tuple[str, str, str, str]


class _Recorded(Mapping[str, str]):
    """An empty environment that remembers the names that were looked up, in order."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}

    def __getitem__(self, name: str) -> str:
        self.names[name] = None
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def page() -> str:
    """Renders the page."""
    with patch.dict(os.environ, {"ARCHON_HOME": "$ARCHON_HOME"}):
        sections = _sections()
    index: dict[str, list[str]] = {}
    for title, (_, rows) in sections.items():
        for name in dict.fromkeys(row[0] for row in rows):
            index.setdefault(name, []).append(f"[{title}](#{_anchor(title)})")
    parts = [HEAD, "\n## All variables\n\n"]
    parts.append(
        table(
            ("variable", "read by"),
            [(name, ", ".join(index[name])) for name in sorted(index, key=lambda name: name.strip("`"))],
        )
    )
    for title, (text, rows) in sections.items():
        parts.append(f"\n## {title}\n\n{text}\n\n{table(COLUMNS, rows)}")
    return "".join(parts)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _sections() -> dict[str, tuple[str, list[Row]]]:
    """Returns the sections of the page: title, introduction and rows."""
    common = set(ServiceSettings.model_fields)
    own = {
        title: (text, _fields(settings, common))
        for title, text, settings in (
            ("Registry", "`python -m archon_services.registry`", RegistrySettings),
            ("Memory service", "`python -m archon_services.memory`", MemorySettings),
            ("Orchestrator", "`python -m archon_services.orchestrator`", OrchestratorSettings),
            ("HTTP gateway", "`python -m archon_services.gateway`", GatewaySettings),
        )
    }
    roles_rows = _fields(AgentServiceSettings, common) + _others(variables.ROLES)
    agents = "A process that calls `AgentServer.run` or `archon_mesh.node.serve`: flags and the file do not apply."
    return {
        "Command line": (
            COMMAND_LINE,
            _options() + _others(variables.COMMAND_LINE),
        ),
        "Every service and role": (
            "The processes of the next four sections.",
            _fields(ServiceSettings, set()) + _others(variables.SERVICES),
        ),
        **own,
        "Role": (ROLE, roles_rows),
        "Agent in Python": (agents, _agent_rows()),
        "Tests": ("The test suite of Archon.", _others(variables.TESTS)),
    }


def _fields(settings: type[ServiceSettings], without: set[str]) -> list[Row]:
    return [_field(name, info) for name, info in settings.model_fields.items() if name not in without]


def _field(name: str, info: FieldInfo) -> Row:
    default = info.get_default(call_default_factory=True, validated_data={})
    return (
        code(f"ARCHON_{name.upper()}"),
        kind_of(info.annotation, info.metadata),
        code(_shown(default)),
        info.description or "",
    )


def _others(reader: str) -> list[Row]:
    return [
        (code(variable.name), variable.values, code(variable.default), variable.description)
        for variable in VARIABLES
        if reader in variable.readers
    ]


def _agent_rows() -> list[Row]:
    """Returns the variables that AgentSettings reads, described as those of a role, and the other ones of the SDK."""
    environment = _Recorded()
    AgentSettings.from_environment(environment)
    described = {name: (kind, meaning) for name, kind, _, meaning in _fields(AgentServiceSettings, set())}
    others = _others(variables.AGENTS)
    described |= {name: (kind, meaning) for name, kind, _, meaning in others}
    rows = []
    for name in environment.names:
        default = getattr(AgentSettings(), name.removeprefix("ARCHON_").lower())
        kind, meaning = described[code(name)]
        rows.append((code(name), kind, code(_shown(default)), meaning))
    return rows + [row for row in others if row[0] not in {row[0] for row in rows}]


def _options() -> list[Row]:
    """Returns the options of all commands that have a variable, with the commands that have the option."""
    commands: dict[Row, list[str]] = {}
    for command, option, default in _walk(_program(), "archon"):
        kind = f"integer, {option.min:,} to {option.max:,}" if option.min is not None else "text"
        key = (code(str(option.envvar)), kind, code(_shown(default)), (option.help or "").rstrip("."))
        commands.setdefault(key, []).append(command)
    return sorted(
        (name, kind, default, f"{meaning} ({', '.join(map(code, sorted(names)))})")
        for (name, kind, default, meaning), names in commands.items()
    )


def _program() -> typer.Typer:
    """Returns a program with all commands."""
    program = typer.Typer()
    for name in COMMANDS:
        command = load_command(name)
        if isinstance(command, typer.Typer):
            program.add_typer(command, name=name)
        else:
            program.command(name)(command)
    return program


def _walk(program: typer.Typer, path: str) -> Iterator[tuple[str, OptionInfo, object]]:
    """Yields each option with a variable: its command, the option, and its default."""
    for command in program.registered_commands:
        assert command.callback is not None
        hints = get_type_hints(command.callback, include_extras=True)
        for name, parameter in inspect.signature(command.callback).parameters.items():
            for option in getattr(hints[name], "__metadata__", ()):
                if isinstance(option, OptionInfo) and option.envvar:
                    yield f"{path} {command.name or command.callback.__name__}", option, parameter.default
    for group in program.registered_groups:
        assert group.typer_instance is not None
        yield from _walk(group.typer_instance, f"{path} {group.name}")


def _shown(default: object) -> str:
    """Shows a default as it is written in the environment."""
    if default is None or default == "":
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:.15g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    PAGE.write_text(page())
