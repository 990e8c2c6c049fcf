"""The chain of one run: links each of its steps, and seals it at its end, at a claim, and now and then in between."""

from __future__ import annotations

from typing import Final

from archon.history import AuditKey, SealReason, anchor_of, link_of
from archon.history.seal import chain_of_run

SEAL_STEPS: Final = 256
"""Steps after which a run is sealed that goes on."""

SEAL_SECONDS: Final = 60.0
"""Seconds after which the next step of a run is sealed."""


class RunChain:
    """Belongs to the driver of a run. `key` seals; None: steps have links alone. A signature costs as much as all links
    of a usual run, so that such a run has one, at its end."""

    __slots__ = ("_key", "_run_id", "_sealed_at", "_unsealed", "link")

    def __init__(self, run_id: str, key: AuditKey | None, link: bytes = b"") -> None:
        self._run_id = run_id
        self._key = key
        self.link = link
        """The link of the last durable step; empty if there is none, or it has none."""

        self._unsealed = 0
        self._sealed_at = 0.0
        """When the chain was sealed last, or begun here, in wall seconds."""

    def next(self, base: int, last_seq: int, data: bytes, inputs: bytes) -> bytes:
        """Returns the link of the step after event `base`."""
        before = self.link or anchor_of(self._run_id, base)
        return link_of(before, self._run_id, base, last_seq, data, inputs)

    def seal(self, last_seq: int, link: bytes, now: float, *, ended: bool, claimed: bool) -> bytes:
        """Returns the seal of a step; empty if it gets none. `now` is in wall seconds."""
        if self._key is None:
            return b""
        if ended:
            reason = SealReason.END
        elif claimed:
            reason = SealReason.CLAIM
        else:
            self._sealed_at = self._sealed_at or now
            if self._unsealed < SEAL_STEPS - 1 and abs(now - self._sealed_at) < SEAL_SECONDS:
                return b""
            reason = SealReason.LENGTH
        return self._key.seal(chain_of_run(self._run_id), last_seq, link, now, reason)

    def stored(self, link: bytes, *, sealed: bool, now: float) -> None:
        """A step with this link is durable."""
        self.link = link
        if sealed:
            self._unsealed, self._sealed_at = 0, now
        else:
            self._unsealed += 1
