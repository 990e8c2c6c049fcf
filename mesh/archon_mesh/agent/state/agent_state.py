"""Where an agent stands in one of its runs, and how a tool learns whose call it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from archon.errors import FailedPrecondition
from archon_mesh.agent.state.global_storage import GlobalStorage
from archon_mesh.agent.state.history import HistoryList

if TYPE_CHECKING:
    from archon_mesh.agent.agent import Agent
    from archon_mesh.agent.events.types import Emitter


class Phase(StrEnum):
    """What an agent does; the last three within its loop."""

    IDLE = "idle"
    PLANNING = "planning"
    EXECUTING = "executing"
    REPLANNING = "replanning"
    FINISHED = "finished"
    ERROR = "error"
    THINKING = "thinking"
    ACTING = "acting"
    OBSERVING = "observing"


@dataclass(slots=True)
class AgentState:
    """One run of one agent. Sub-agents have the same `root_run_id` and `global_storage`, and their caller's run as
    `parent_run_id`; `history` is each agent's own. `context` is what the caller handed to `run`: for tools and hooks,
    never sent to a model."""

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
    """How often each tool was called in this run."""
    agent: Agent = field(repr=False, compare=False, kw_only=True)
    emitter: Emitter = field(repr=False, compare=False, kw_only=True)
    parent: AgentState | None = field(default=None, repr=False, compare=False)
    thread_id: str = ""
    """The session, as front ends name it."""

    def lineage(self) -> Iterator[AgentState]:
        """This one, and whoever called it, innermost first."""
        one: AgentState | None = self
        while one is not None:
            yield one
            one = one.parent


_current: ContextVar[AgentState | None] = ContextVar("archon_agent", default=None)


def get_context() -> AgentState:
    """The state of the agent whose tool, hook or sub-agent this code is. Raises FailedPrecondition outside of one."""
    state = _current.get()
    if state is None:
        raise FailedPrecondition("no agent is at work here: get_context() is for tools, hooks and sub-agents")
    return state


def current_state() -> AgentState | None:
    """As `get_context`; None outside."""
    return _current.get()


@contextmanager
def acting(state: AgentState) -> Iterator[None]:
    """Within the block the code is that agent's."""
    token = _current.set(state)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its run a tool call stands, both from 1: the same in every attempt that takes the same course."""

    iteration: int
    number: int


_place: ContextVar[Place | None] = ContextVar("archon_place", default=None)


def get_place() -> Place:
    """Of the tool call that this code carries out. Raises FailedPrecondition outside of one."""
    place = _place.get()
    if place is None:
        raise FailedPrecondition("no tool is called here")
    return place


@contextmanager
def calling(state: AgentState, number: int) -> Iterator[None]:
    """Within the block the code is that agent's call of that number in its turn."""
    token = _place.set(Place(state.current_iteration, number))
    try:
        with acting(state):
            yield
    finally:
        _place.reset(token)


def new_id() -> str:
    """For an agent or a run."""
    return uuid.uuid4().hex
