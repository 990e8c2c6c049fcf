"""What a run is: events, state, and the two functions that decide."""

from archon_mesh.core.run.effects import Adopt, Alarm, Assign, CancelAttempt, Effect, Place, open_effects
from archon_mesh.core.run.engine import decide
from archon_mesh.core.run.events import Event
from archon_mesh.core.run.inputs import Input
from archon_mesh.core.run.state import RunState, Task, fold

__all__ = [
    "Adopt",
    "Alarm",
    "Assign",
    "CancelAttempt",
    "Effect",
    "Event",
    "Input",
    "Place",
    "RunState",
    "Task",
    "decide",
    "fold",
    "open_effects",
]
