"""Debugging of runs: a recorded run is stepped through, forwards and backwards.

recorded    a run as it is debugged: its events, its recorded calls, its versions in the shared memory
timeline    the state of the run after each event, from snapshots
stepper     the position in the run, and the ways to move it
search      the events of a task, a role, a kind, with a text, or of a failure
sent        the material of each attempt: the task, the answers of other roles, the prompts
frames      the frames of a task's sessions, as its events tell them
document    the state at an event as JSON
"""

from __future__ import annotations

from archon_services.debugging.document import state_document
from archon_services.debugging.frames import FrameView, frames_of
from archon_services.debugging.recorded import DebuggedRun, fetch_debugged, open_debugged
from archon_services.debugging.search import Match, any_event, by_kind, by_role, by_task, by_text, is_failure
from archon_services.debugging.sent import MemoryRead, SentTasks, memory_reads
from archon_services.debugging.stepper import Stepper
from archon_services.debugging.timeline import SNAPSHOT_EVERY, Timeline

__all__ = [
    "SNAPSHOT_EVERY",
    "DebuggedRun",
    "FrameView",
    "Match",
    "MemoryRead",
    "SentTasks",
    "Stepper",
    "Timeline",
    "any_event",
    "by_kind",
    "by_role",
    "by_task",
    "by_text",
    "fetch_debugged",
    "frames_of",
    "is_failure",
    "memory_reads",
    "open_debugged",
    "state_document",
]
