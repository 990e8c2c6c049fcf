"""Environment variables: unknown names and invalid values of ARCHON_*, and those that name a proxy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.common.variables import VARIABLES

if TYPE_CHECKING:
    from archon_services.common.settings import ServiceSettings

_SET_BY_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$")

_PROXIES: Final = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")


def all_settings() -> tuple[type[ServiceSettings], ...]:
    """Returns the settings classes of all services."""
    from archon_services.agents.settings import AgentServiceSettings
    from archon_services.gateway.settings import GatewaySettings
    from archon_services.memory.settings import MemorySettings
    from archon_services.orchestrator.settings import OrchestratorSettings
    from archon_services.registry.settings import RegistrySettings

    return (RegistrySettings, MemorySettings, OrchestratorSettings, GatewaySettings, AgentServiceSettings)


def known_variables() -> set[str]:
    """Returns the names of all variables that Archon reads."""
    settings = {f"ARCHON_{name.upper()}" for service in all_settings() for name in service.model_fields}
    return settings | {variable.name for variable in VARIABLES}


def check_environment(environment: Mapping[str, str]) -> list[Finding]:
    """Checks for names that look like typing errors, and for values that services reject.

    Values are validated as services read them, so `environment` must be this process's own.
    """
    known = known_variables()
    variables = {
        name
        for name, value in environment.items()
        if name.startswith("ARCHON_") and not value.startswith("tcp://") and not _SET_BY_KUBERNETES.search(name)
    }
    findings = []
    for name in sorted(variables - known):
        similar = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"Did you mean {similar[0]}?" if similar else "Archon does not read it: `unset` it."
        findings.append(warning("environment", f"unknown variable {name}", hint))
    findings += [problem("environment", message, "Correct it, or `unset` it.") for message in _invalid_values()]
    valid = sorted(variables & known)
    return findings or [ok("environment", f"set: {', '.join(valid)}" if valid else "no ARCHON_* variable is set")]


def check_proxies(environment: Mapping[str, str]) -> list[Finding]:
    """Names the variables by which HTTP clients use a proxy."""
    names = sorted(name for name, value in environment.items() if name.lower() in _PROXIES and value)
    if not names:
        return []
    used = "models, MCP servers and collectors on other machines are reached through it; the mesh uses no proxy"
    return [ok("proxy", f"{', '.join(names)} {'names' if len(names) == 1 else 'name'} a proxy: {used}")]


def _invalid_values() -> list[str]:
    """Returns one message per value that a service would refuse to start with."""
    from archon.errors import InvalidArgument
    from archon_services.common.settings import load

    messages: dict[str, None] = {}
    for settings in all_settings():
        try:
            load(settings, [])
        except InvalidArgument as error:
            messages.update(dict.fromkeys(str(error).split("; ")))
    return list(messages)
