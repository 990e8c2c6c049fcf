"""Reads the spending of attempts from the events of a run."""

from __future__ import annotations

from collections.abc import Sequence

from archon_mesh.engine import events as ev
from archon_mesh.engine.types import NOTHING, Amount


def spent_by(events: Sequence[ev.Event]) -> Amount:
    """Returns the sum that the attempts have spent that end with these events of one step, each counted once.

    The spending of an attempt that waits for approval counts when it ends; the result that is approved names it again.
    Attempts that were lost have told nothing. Results that were taken over from another run (attempt 0) cost nothing.
    """
    total = NOTHING
    approved: set[str] = set()
    for event in events:
        match event:
            case ev.InputGiven() if event.input_id.startswith(f"{event.task_id}/approval-"):
                approved.add(event.task_id)
            case ev.ApprovalRequested() | ev.Retried():
                total += event.spent
            case ev.InputRequested() if not event.sequence:
                total += event.spent
            case ev.ResultReceived() if event.attempt and event.task_id not in approved:
                total += event.spent
    return total
