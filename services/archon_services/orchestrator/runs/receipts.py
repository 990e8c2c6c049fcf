"""Receipts: senders hear whether their input counted (ack) or was discarded (nack)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from archon_mesh.engine import inputs as inp
from archon_services.orchestrator.ports import Delivery

DEPOSED: Final = "DEPOSED"
"""Reason of a discarded command whose run another replica has taken over."""


def acknowledge(batch: Sequence[Delivery], discarded: Mapping[int, str], epoch: int) -> None:
    """Sends the receipts of a batch whose events are durable. `discarded` maps positions in the batch to reasons."""
    for number, delivery in enumerate(batch):
        if delivery.receipt is None:
            continue
        if number in discarded:
            delivery.receipt.discard(discarded[number], epoch)
        else:
            delivery.receipt.accept(epoch)


def acknowledge_late(inbox: Iterable[Delivery], epoch: int, *, deposed: bool) -> None:
    """Sends the receipts of inputs that arrived after the run's end, or after another replica took over the run."""
    for delivery in inbox:
        is_command = isinstance(delivery.given, inp.Command)
        if delivery.receipt is None or (deposed and not is_command):
            continue
        if is_command and not deposed:
            delivery.receipt.accept(epoch)
        else:
            delivery.receipt.discard(DEPOSED if is_command else "ABORTED", epoch)
