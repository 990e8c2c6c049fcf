"""Why a mesh isn't started."""

from __future__ import annotations

from archon.errors import FailedPrecondition, Unavailable


class AlreadyUp(FailedPrecondition):
    """Another process runs the mesh of this folder; `metadata["pid"]` is its id."""

    default_reason = "ALREADY_UP"


class StartFailed(Unavailable):
    """The mesh could not be started; where a process is to blame the message has the end of its log."""

    default_reason = "START_FAILED"
