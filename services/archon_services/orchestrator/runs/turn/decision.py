"""The decision of one turn of the scheduler about a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from archon_mesh.engine import Effect
from archon_mesh.engine import events as ev
from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.journal import AuditRow, Step
from archon_services.orchestrator.ports import Delivery


@dataclass(slots=True)
class Decision:
    """The events decided in a turn, and their effects once its step is durable."""

    batch: Sequence[Delivery]
    now: float
    executed: bool
    """Whether the driver has executed the effects of the events before this step."""

    events: list[ev.Event] = field(default_factory=list)
    inputs: list[inp.Input] = field(default_factory=list)
    discarded: dict[int, str] = field(default_factory=dict)
    """Reasons, by position in the batch."""

    audit: list[AuditRow] = field(default_factory=list)
    """Entries of the audit log about the commands that had an effect."""

    placed: dict[tuple[str, int], str] = field(default_factory=dict)
    """Reserved instances, by (task, attempt)."""

    before: set[Effect] | None = None
    """Effects that were open before the first input whose events are not local; None if all are."""

    early: Sequence[Effect] = ()
    """Effects of the events before that input."""

    step: Step | None = None

    made_ready: bool = False
    """Whether tasks may be ready by an event that no attempt caused, since the candidates were last looked at."""
