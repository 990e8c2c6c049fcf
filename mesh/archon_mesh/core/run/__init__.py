"""The event-sourced core of a run: inputs, events, state, `decide` (input to events) and `apply` (event to state)."""

from archon_mesh.core.run.decide.engine import decide
from archon_mesh.core.run.effects import (
    Adopt,
    Answer,
    Assign,
    CancelAttempt,
    Effect,
    GiveInput,
    Grant,
    Place,
    Timer,
    UpdateMemory,
    effects_of,
    is_local,
    open_effects,
    place_of,
    places,
)
from archon_mesh.core.run.events import Event
from archon_mesh.core.run.fold.apply import apply, fold
from archon_mesh.core.run.inputs import Input
from archon_mesh.core.run.state import RunState
from archon_mesh.core.run.task import Delegation, Task

__all__ = [
    "Adopt",
    "Answer",
    "Assign",
    "CancelAttempt",
    "Delegation",
    "Effect",
    "Event",
    "GiveInput",
    "Grant",
    "Input",
    "Place",
    "RunState",
    "Task",
    "Timer",
    "UpdateMemory",
    "apply",
    "decide",
    "effects_of",
    "fold",
    "is_local",
    "open_effects",
    "place_of",
    "places",
]
