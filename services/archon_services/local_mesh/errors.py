"""Errors of starting a mesh."""

from __future__ import annotations

from archon.errors import FailedPrecondition, Unavailable


class AlreadyUp(FailedPrecondition):
    """Another process runs the mesh of this folder; `metadata["pid"]` is its id."""

    default_reason = "ALREADY_UP"


class StartFailed(Unavailable):
    """The mesh failed to start; if one process is the cause, the message has the last lines of its log."""

    default_reason = "START_FAILED"
