"""What senders hear of what they sent: that it happened, or that it didn't count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from archon_mesh.core.run import inputs as inp
from archon_services.orchestrator.ports import Delivery

DEPOSED: Final = "DEPOSED"
"""A receipt is discarded so where the run has become somebody else's."""


def acknowledge(batch: Sequence[Delivery], discarded: Mapping[int, str], epoch: int) -> None:
    """What was decided is durable. `discarded` says which of the batch didn't count, and why."""
    for number, delivery in enumerate(batch):
        if delivery.receipt is None:
            continue
        if number in discarded:
            delivery.receipt.discard(discarded[number], epoch)
        else:
            delivery.receipt.accept(epoch)


def acknowledge_late(inbox: Iterable[Delivery], epoch: int, *, deposed: bool) -> None:
    """What came after the end: whoever waits hears that it changes nothing any more, or to ask the run's new owner."""
    for delivery in inbox:
        asked = isinstance(delivery.given, inp.Command)
        if delivery.receipt is None or (deposed and not asked):
            continue
        if asked and not deposed:
            delivery.receipt.accept(epoch)
        else:
            delivery.receipt.discard(DEPOSED if asked else "ABORTED", epoch)
