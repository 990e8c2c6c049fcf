"""The variables ARCHON_*: those that nobody reads, and values that no service takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning

if TYPE_CHECKING:
    from archon_services.common.settings import ServiceSettings

# Read by the SDK, the command line or the tests, without being the setting of a service.
_BESIDES: Final = (
    "ARCHON_CONFIG",
    "ARCHON_DEBUG",
    "ARCHON_HOME",
    "ARCHON_MESH_SECRET",
    "ARCHON_ORCHESTRATOR",
    "ARCHON_RECORDS",
    "ARCHON_REQUIRE",
)
_FROM_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?$")


def all_settings() -> tuple[type[ServiceSettings], ...]:
    """Those of every service."""
    from archon_services.agents.settings import AgentServiceSettings
    from archon_services.memory.settings import MemorySettings
    from archon_services.orchestrator.settings import OrchestratorSettings
    from archon_services.registry.settings import RegistrySettings

    return (RegistrySettings, MemorySettings, OrchestratorSettings, AgentServiceSettings)


def known_variables() -> set[str]:
    """Every variable that something of Archon reads."""
    return {f"ARCHON_{name.upper()}" for one in all_settings() for name in one.model_fields} | set(_BESIDES)


def check_environment(environment: Mapping[str, str]) -> list[Finding]:
    """Variables that look like a typing error, and values that are wrong. The values themselves must be those of this
    process: settings are read from there."""
    known = known_variables()
    ours = {
        key: value
        for key, value in environment.items()
        if key.startswith("ARCHON_") and not value.startswith("tcp://") and not _FROM_KUBERNETES.search(key)
    }
    found = []
    for name in sorted(set(ours) - known):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"Did you mean {near[0]}?" if near else "Nothing of Archon reads it: `unset` it."
        found.append(warning("environment", f"no service knows {name}", hint))
    found += [problem("environment", said, "Correct it, or `unset` it.") for said in _wrong()]
    read = sorted(set(ours) & known)
    return found or [ok("environment", f"{', '.join(read)} set" if read else "nothing of Archon's is set")]


def _wrong() -> list[str]:
    """One sentence per value that a service would refuse to start with."""
    from archon.errors import InvalidArgument
    from archon_services.common.settings import load

    said: dict[str, None] = {}
    for settings in all_settings():
        try:
            load(settings, [])
        except InvalidArgument as error:
            said.update(dict.fromkeys(str(error).split("; ")))
    return list(said)
