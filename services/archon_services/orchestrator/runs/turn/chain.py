"""The chain of one run: links each of its steps, and says which are sealed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from archon.history import AuditKey, SealReason, anchor_of, link_of
from archon.history.seal import Place, chain_of_run
from archon_services.orchestrator.journal import Step

SEAL_STEPS: Final = 256
"""Steps after which a run is sealed that goes on."""

SEAL_SECONDS: Final = 60.0
"""Seconds after which the next step of a run is sealed."""


class RunChain:
    """Belongs to the driver of a run. A usual run is sealed once, at its end."""

    __slots__ = ("_run_id", "_sealed_at", "_unsealed", "link")

    def __init__(self, run_id: str, link: bytes = b"") -> None:
        self._run_id = run_id
        self.link = link
        """The link of the last durable step; empty if there is none, or it has none."""

        self._unsealed = 0
        self._sealed_at = 0.0
        """When the chain was sealed last, or begun here, in wall seconds."""

    def next(self, base: int, last_seq: int, data: bytes, inputs: bytes) -> bytes:
        """Returns the link of the step after event `base`."""
        before = self.link or anchor_of(self._run_id, base)
        return link_of(before, self._run_id, base, last_seq, data, inputs)

    def seal_reason(self, now: float, *, ended: bool, claimed: bool) -> int:
        """Returns why the next step is sealed, 0 if it is not. `now` is in wall seconds."""
        if ended:
            return SealReason.END
        if claimed:
            return SealReason.CLAIM
        self._sealed_at = self._sealed_at or now
        is_due = self._unsealed >= SEAL_STEPS - 1 or abs(now - self._sealed_at) >= SEAL_SECONDS
        return SealReason.LENGTH if is_due else 0

    def stored(self, step: Step) -> None:
        """Takes the link of a durable step as the end of the chain."""
        self.link = step.link
        if step.seal_reason:
            self._unsealed, self._sealed_at = 0, step.time
        else:
            self._unsealed += 1


class StepSealer:
    """Seals the steps of a turn of the scheduler, all with one signature. `key` is None if nothing is sealed."""

    def __init__(self, key: AuditKey | None) -> None:
        self._key = key

    def seal(self, steps: Sequence[Step]) -> None:
        """Seals those steps that must be."""
        if self._key is None:
            return
        due = [step for step in steps if step.seal_reason]
        if not due:
            return
        places = [
            Place(chain_of_run(step.run_id), step.last_seq, step.link, SealReason(step.seal_reason)) for step in due
        ]
        for step, seal in zip(due, self._key.seal_all(places, due[0].time), strict=True):
            object.__setattr__(step, "seal", seal)  # a step is a value: no one has seen it before
