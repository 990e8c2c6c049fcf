"""The state of one run, and access to it from tools, hooks and sub-agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from archon.errors import FailedPrecondition
from archon_mesh.agent.events.emit import Emitter
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList
from archon_mesh.agent.state.running_agent import Phase, RunningAgent
from archon_mesh.llm.structured import TypedOutput
from archon_mesh.tools.call_position import bind_position


@dataclass(slots=True)
class AgentState:
    """One run of one agent.

    A sub-agent's run shares `root_run_id` and `global_storage` with its caller's run, whose id is its `parent_run_id`;
    each agent has its own `history`. `context` is the mapping that the caller passed to `run`, for tools and hooks; it
    is never sent to a model.
    """

    agent_id: str
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    agent_name: str
    max_iterations: int
    history: HistoryList
    global_storage: GlobalStorage
    current_iteration: int = 0
    phase: Phase = Phase.IDLE
    context: Mapping[str, Any] = field(default_factory=dict)
    tool_calls: dict[str, int] = field(default_factory=dict)
    """Number of calls of each tool in this run."""
    agent: RunningAgent = field(repr=False, compare=False, kw_only=True)
    emitter: Emitter = field(repr=False, compare=False, kw_only=True)
    parent: AgentState | None = field(default=None, repr=False, compare=False)
    thread_id: str = ""
    """The session id, under AG-UI's name for it."""
    output: TypedOutput | None = field(default=None, repr=False, compare=False)
    """The type of the answer; None for any text."""

    def lineage(self) -> Iterator[AgentState]:
        """Yields this state and the callers' states, innermost first."""
        state: AgentState | None = self
        while state is not None:
            yield state
            state = state.parent

    def event_fields(self) -> dict[str, Any]:
        """Returns the fields that every event of this run carries."""
        return {
            "run_id": self.run_id,
            "root_run_id": self.root_run_id,
            "parent_run_id": self.parent_run_id,
            "agent_name": self.agent_name,
        }


_current_state: ContextVar[AgentState | None] = ContextVar("archon_agent", default=None)


def get_context() -> AgentState:
    """Returns the state of the run that this tool, hook or sub-agent belongs to.

    Raises FailedPrecondition outside a run.
    """
    state = _current_state.get()
    if state is None:
        raise FailedPrecondition("no agent is running here: call get_context() from tools, hooks and sub-agents only")
    return state


def current_state() -> AgentState | None:
    """Returns the state of the current run, or None outside a run."""
    return _current_state.get()


@contextmanager
def bind_state(state: AgentState) -> Iterator[None]:
    """Makes `state` the current one within the block."""
    token = _current_state.set(state)
    try:
        yield
    finally:
        _current_state.reset(token)


@contextmanager
def bind_call(state: AgentState, number: int) -> Iterator[None]:
    """Makes `state` and its tool call `number` of the current iteration the current ones within the block."""
    with bind_position(state.current_iteration, number), bind_state(state):
        yield
