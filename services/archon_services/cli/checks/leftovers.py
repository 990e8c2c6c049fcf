"""What an earlier mesh left in ARCHON_HOME."""

from __future__ import annotations

from archon_services.cli.checks.finding import Finding, ok, problem, warning
from archon_services.local_mesh import Home, read_state
from archon_services.local_mesh.state import birth_of

_TIDY = "`archon down` tidies up; so does the next `archon up`."


def check_state(home: Home) -> list[Finding]:
    """Whether state.json tells of a mesh that isn't there any more."""
    holder, state = home.holder(), read_state(home)
    if holder:
        if state is None or state.pid != holder:
            return [warning("state", f"process {holder} holds {home.root}, but says nothing of itself", _TIDY)]
        return [ok("state", f"a mesh is up in {home.root}: {state.phase}")]
    if state is None:
        if home.state_file.exists():
            return [warning("state", f"{home.state_file} can't be read", _TIDY)]
        return [ok("state", f"no mesh is up in {home.root}")]
    left = [one.name for one in state.processes if one.pid and one.birth and birth_of(one.pid) == one.birth]
    if left:
        said = f"the supervisor of {home.root} is gone, but {', '.join(left)} still run"
        return [problem("state", said, "`archon down` ends them.")]
    if state.phase == "failed":
        reason = state.error.splitlines()[0] if state.error else "for an unknown reason"
        return [warning("state", f"the last mesh could not be started: {reason}", f"The logs are in {home.logs}.")]
    return [warning("state", f"{home.state_file} is of a mesh that is gone", _TIDY)]
