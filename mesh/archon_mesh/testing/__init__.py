"""All names that tests of agents import: a mesh in the test's event loop, virtual time, faults by name, and models,
agents and orchestrators that play a script. docs/testing-agents.md shows each of them.

Names are imported when they are first used. The names for meshes come from the package of the services, which this
package does not need otherwise: they are found by the name of their module.
"""

from __future__ import annotations

from typing import Any, Final

from archon.lazy_names import lazy_names

_MODULES: Final = {
    "Delayed": "archon.testing",
    "Delegation": "archon.testing",
    "EtcdProcess": "archon_services.testing",
    "FakeAgent": "archon.testing",
    "FakeOrchestrator": "archon.testing",
    "Fault": "archon_services.testing",
    "FaultyModel": "archon_mesh.testing.model_faults",
    "FaultyTool": "archon_mesh.testing.tool_faults",
    "InProcessMesh": "archon_services.testing",
    "InjectedFault": "archon_mesh.testing.injected_fault",
    "LocalMesh": "archon_services.testing",
    "ModelFault": "archon_mesh.testing.model_faults",
    "RecordedModel": "archon_mesh.testing.recorded_model",
    "Reply": "archon.testing",
    "ScriptedModel": "archon_mesh.llm",
    "TaskResult": "archon.testing",
    "ToolFault": "archon_mesh.testing.tool_faults",
    "VirtualTime": "archon_mesh.testing.virtual_time",
}

__all__ = sorted(_MODULES)

_get: Final = lazy_names(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    """Raises ImportError if the name needs the package of the services, and that is not installed."""
    try:
        return _get(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "archon_services":
            raise
        raise ImportError(
            f"{name} of archon_mesh.testing needs the services of Archon (the package archon_services), which are not "
            "installed here: pip install archon-mesh",
            name=error.name,
        ) from None
