"""The state file of the mesh in ARCHON_HOME, compared with the running processes."""

from __future__ import annotations

from typing import Final

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import Home, read_state
from archon_services.local_mesh.state import start_ticks

_CLEAN_UP_HINT: Final = "`archon down` cleans up; so does the next `archon up`."


def check_state(home: Home) -> list[Finding]:
    """Checks whether state.json describes a mesh that is no longer running."""
    holder, state = home.holder(), read_state(home)
    if holder:
        if state is None or state.pid != holder:
            return [warning("state", f"process {holder} holds {home.root}, but has written no state", _CLEAN_UP_HINT)]
        return [ok("state", f"mesh in {home.root}: {state.phase}")]
    if state is None:
        if home.state_file.exists():
            return [warning("state", f"cannot read {home.state_file}", _CLEAN_UP_HINT)]
        return [ok("state", f"no mesh is running in {home.root}")]
    left = [
        process.name
        for process in state.processes
        if process.pid and process.birth and start_ticks(process.pid) == process.birth
    ]
    if left:
        message = f"the supervisor of {home.root} has ended, but {', '.join(left)} still run"
        return [problem("state", message, "`archon down` stops them.")]
    if state.phase == "failed":
        reason = state.error.splitlines()[0] if state.error else "unknown reason"
        return [warning("state", f"the last mesh failed to start: {reason}", f"The logs are in {home.logs}.")]
    return [warning("state", f"{home.state_file} is left over from a mesh that is not running", _CLEAN_UP_HINT)]
