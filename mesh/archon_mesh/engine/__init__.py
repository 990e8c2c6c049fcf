"""The engine of runs: `decide` turns an input into events, `apply` folds them into the state, and the state tells the
effects that are open. Plans are in `plan`, the host in a process in `local_run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_mesh.engine.effects import (
        Adopt,
        Answer,
        Assign,
        CancelAttempt,
        ConfirmMessage,
        Deliver,
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
    from archon_mesh.engine.events import Event
    from archon_mesh.engine.fold.apply import apply
    from archon_mesh.engine.inputs import Input
    from archon_mesh.engine.local_run import LocalRun
    from archon_mesh.engine.state import RunState
    from archon_mesh.engine.task import Delegation, Task

__all__ = [
    "Adopt",
    "Answer",
    "Assign",
    "CancelAttempt",
    "ConfirmMessage",
    "Delegation",
    "Deliver",
    "Effect",
    "Event",
    "GiveInput",
    "Grant",
    "Input",
    "LocalRun",
    "Place",
    "RunState",
    "Task",
    "Timer",
    "UpdateMemory",
    "apply",
    "effects_of",
    "is_local",
    "open_effects",
    "place_of",
    "places",
]

_MODULES: Final = {
    "Adopt": "archon_mesh.engine.effects",
    "Answer": "archon_mesh.engine.effects",
    "Assign": "archon_mesh.engine.effects",
    "CancelAttempt": "archon_mesh.engine.effects",
    "ConfirmMessage": "archon_mesh.engine.effects",
    "Delegation": "archon_mesh.engine.task",
    "Deliver": "archon_mesh.engine.effects",
    "Effect": "archon_mesh.engine.effects",
    "Event": "archon_mesh.engine.events",
    "GiveInput": "archon_mesh.engine.effects",
    "Grant": "archon_mesh.engine.effects",
    "Input": "archon_mesh.engine.inputs",
    "LocalRun": "archon_mesh.engine.local_run",
    "Place": "archon_mesh.engine.effects",
    "RunState": "archon_mesh.engine.state",
    "Task": "archon_mesh.engine.task",
    "Timer": "archon_mesh.engine.effects",
    "UpdateMemory": "archon_mesh.engine.effects",
    "apply": "archon_mesh.engine.fold.apply",
    "effects_of": "archon_mesh.engine.effects",
    "is_local": "archon_mesh.engine.effects",
    "open_effects": "archon_mesh.engine.effects",
    "place_of": "archon_mesh.engine.effects",
    "places": "archon_mesh.engine.effects",
}

__getattr__ = lazy_names(__name__, _MODULES)
