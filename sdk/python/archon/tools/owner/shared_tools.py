"""The shared tools of an agent, for the agent itself: which are shared, who has leased them, and taking them back."""

from __future__ import annotations

from dataclasses import dataclass

from archon.registry import Tool
from archon.tools.owner.tool_owner import ToolOwner
from archon.tools.shared_tool import SharedTool
from archon.types.task_ref import TaskRef


@dataclass(frozen=True, slots=True)
class LeaseView:
    """A lease that is in force, for the owner. `seconds_left` counts down to 0; `task` and `instance_id` are in the
    words of its holder."""

    lease_id: str
    tool_name: str
    seconds_left: float
    task: TaskRef | None
    instance_id: str
    calls_in_progress: int


class SharedTools:
    """The tools that an AgentServer shares now; others may be added and taken back while it serves."""

    def __init__(self, owner: ToolOwner) -> None:
        self._owner = owner

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools with their terms and current figures, sorted by name."""
        return self._owner.advertised

    @property
    def running(self) -> int:
        """Calls in progress."""
        return self._owner.running

    def leases(self) -> list[LeaseView]:
        """Returns the leases that are in force."""
        return [
            LeaseView(
                lease.lease_id,
                lease.tool_name,
                self._owner.seconds_left(lease),
                lease.task,
                lease.instance_id,
                lease.calls,
            )
            for lease in self._owner.leases()
        ]

    def share(self, tool: SharedTool) -> None:
        """Shares a tool from now on. Raises AlreadyExists if one of its name is shared."""
        self._owner.share(tool)

    def revoke(self, tool_name: str) -> int:
        """Takes a tool back at once: it is no longer shared, its leases end, and so do its calls in progress. Returns
        the number of leases that ended. A tool that is not shared is not an error."""
        return self._owner.revoke(tool_name)

    def revoke_lease(self, lease_id: str) -> bool:
        """Ends a lease at once, with its calls in progress. Returns whether it was in force."""
        return self._owner.revoke_lease(lease_id)
