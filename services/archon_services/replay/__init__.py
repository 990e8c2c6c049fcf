"""Exports runs as files, and replays them: decided again by today's engine, and run again with all or some of their
agents played from the file.

export       writes a run as a file
recorded_run decides a recorded run again, and says where it first differs
rerun        runs a recorded run again, in a mesh of this process
comparison   compares that with the recording
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archon.lazy_names import lazy_names

if TYPE_CHECKING:
    from archon_services.replay.comparison import Comparison
    from archon_services.replay.export import ExportedRun, export_run
    from archon_services.replay.recorded_run import Difference, FieldDifference, Recording, decide_again
    from archon_services.replay.rerun import ReplayMesh, RunAgain, replay_mesh, run_again

__all__ = [
    "Comparison",
    "Difference",
    "ExportedRun",
    "FieldDifference",
    "Recording",
    "ReplayMesh",
    "RunAgain",
    "decide_again",
    "export_run",
    "replay_mesh",
    "run_again",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Comparison": "archon_services.replay.comparison",
        "Difference": "archon_services.replay.recorded_run",
        "ExportedRun": "archon_services.replay.export",
        "FieldDifference": "archon_services.replay.recorded_run",
        "Recording": "archon_services.replay.recorded_run",
        "ReplayMesh": "archon_services.replay.rerun",
        "RunAgain": "archon_services.replay.rerun",
        "decide_again": "archon_services.replay.recorded_run",
        "export_run": "archon_services.replay.export",
        "replay_mesh": "archon_services.replay.rerun",
        "run_again": "archon_services.replay.rerun",
    },
)
